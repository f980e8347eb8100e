"""The types of `logist.quick_model`: type checkers need no pydantic, and know the fields of each model."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, Literal, Self, TypeAlias, TypeVar, dataclass_transform

__all__ = [
    "AfterValidator",
    "BaseModel",
    "ConfigDict",
    "Field",
    "SerializerFunctionWrapHandler",
    "StringConstraints",
    "ValidationError",
    "build_checks",
    "field_serializer",
    "model_serializer",
    "model_validator",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])

ConfigDict: TypeAlias = dict[str, Any]
SerializerFunctionWrapHandler: TypeAlias = Callable[[Any], Any]

class FieldInfo:
    default: Any
    default_factory: Callable[[], Any] | None
    description: str | None
    validation_alias: str | None
    serialization_alias: str | None
    alias: str | None
    annotation: Any
    def is_required(self) -> bool: ...
    def get_default(self, *, call_default_factory: bool = False) -> Any: ...

def Field(  # noqa: N802 - pydantic's name
    default: Any = ...,
    *,
    default_factory: Callable[[], Any] | None = None,
    description: str | None = None,
    validation_alias: str | None = None,
    serialization_alias: str | None = None,
    union_mode: Literal["left_to_right"] | None = None,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    allow_inf_nan: bool | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    pattern: str | None = None,
) -> Any: ...

class _Model(type): ...  # so that type checkers see that classes can be keys

@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(Field,))
class BaseModel(metaclass=_Model):
    model_config: ClassVar[ConfigDict]
    model_fields: ClassVar[dict[str, FieldInfo]]
    @property
    def model_fields_set(self) -> set[str]: ...
    @property
    def model_extra(self) -> dict[str, Any] | None: ...
    @classmethod
    def model_validate(cls, data: Any, *, strict: bool | None = None) -> Self: ...
    @classmethod
    def model_validate_json(cls, text: str | bytes, *, strict: bool | None = None) -> Self: ...
    def model_dump(
        self,
        *,
        mode: str = "python",
        include: Collection[str] | None = None,
        exclude: Collection[str] | None = None,
        by_alias: bool = False,
        exclude_unset: bool = False,
        exclude_defaults: bool = False,
        exclude_none: bool = False,
    ) -> dict[str, Any]: ...
    def model_dump_json(self, **options: Any) -> str: ...
    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> Self: ...

class StringConstraints:
    def __init__(
        self, *, min_length: int | None = None, max_length: int | None = None, pattern: str | None = None
    ) -> None: ...

class AfterValidator:
    func: Callable[[Any], Any]
    def __init__(self, func: Callable[[Any], Any]) -> None: ...

class ValidationError(ValueError):
    title: str
    def errors(
        self, *, include_url: bool = True, include_context: bool = True, include_input: bool = True
    ) -> list[dict[str, Any]]: ...
    def error_count(self) -> int: ...

def build_checks(*models: type[BaseModel]) -> None: ...
def field_serializer(*fields: str) -> Callable[[_Function], _Function]: ...
def model_serializer(*, mode: Literal["wrap"]) -> Callable[[_Function], _Function]: ...
def model_validator(*, mode: Literal["before", "after"]) -> Callable[[_Function], _Function]: ...
