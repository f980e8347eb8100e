"""A small repository in several languages, as people write them, for the search of files that matter."""

from __future__ import annotations

from pathlib import Path

_SHOP = {
    "README.md": "# Shop\n\nOrders, payments and invoices. `make test` runs everything. Sessions expire after an hour.\n",
    "Makefile": "test:\n\tpytest\n\tnpm test\n\tgo test ./...\n",
    "pyproject.toml": '[project]\nname = "shop"\ndependencies = ["flask", "sqlalchemy"]\n',
    "package.json": '{"name": "shop-web", "scripts": {"test": "vitest"}}\n',
    "package-lock.json": '{"packages": {"session": {}, "retry": {}, "payment": {}, "rate-limiter": {}, "csv": {}}}\n'
    * 30,
    "CHANGELOG.md": "# Changes\n\n- Payment retry\n- Session tokens\n- CSV export\n- Rate limiter\n- Login page\n"
    * 10,
    "docs/architecture.md": "# Architecture\n\nThe API talks to the worker through a queue. Payments are retried.\n",
    "docs/payments.md": "# Payments\n\nA charge is retried three times. Refunds go through the ledger.\n",
    "shop/__init__.py": "",
    "shop/app.py": "from flask import Flask\nfrom shop.api import orders, users\n\napp = Flask(__name__)\n",
    "shop/config.py": "import os\n\nTIMEOUT = int(os.environ.get('SHOP_TIMEOUT', '30'))\nRETRIES = 3\n",
    "shop/api/__init__.py": "",
    "shop/api/orders.py": (
        "from shop.models import Order\nfrom shop.export import to_csv\n\n\n"
        "def list_orders(user):\n    return Order.of(user)\n\n\ndef export_orders(user):\n    return to_csv(list_orders(user))\n"
    ),
    "shop/api/users.py": (
        "from shop.auth import login\n\n\ndef sign_in(request):\n    return login(request.form['email'], request.form['password'])\n"
    ),
    "shop/auth.py": (
        "import secrets\n\nfrom shop.models import Session, User\n\n\n"
        "def login(email, password):\n    user = User.by_email(email)\n    if not user or not user.check(password):\n"
        "        raise PermissionError('wrong password')\n    return Session(secrets.token_hex(16), user)\n\n\n"
        "def logout(session):\n    session.expire()\n"
    ),
    "shop/models.py": (
        "class User:\n    email = ''\n\n\nclass Session:\n    token = ''\n\n    def expire(self):\n        self.token = ''\n\n\n"
        "class Order:\n    total = 0\n\n\nclass Invoice:\n    number = 0\n"
    ),
    "shop/payments/__init__.py": "",
    "shop/payments/charge.py": (
        "from shop.config import RETRIES\nfrom shop.payments.gateway import Gateway, GatewayTimeout\n\n\n"
        "def charge(order):\n    for attempt in range(RETRIES):\n        try:\n            return Gateway().pay(order.total)\n"
        "        except GatewayTimeout:\n            continue\n    raise RuntimeError('payment failed')\n"
    ),
    "shop/payments/gateway.py": (
        "class GatewayTimeout(Exception):\n    pass\n\n\nclass Gateway:\n    def pay(self, amount):\n        return post('/charges', amount)\n"
    ),
    "shop/payments/refund.py": "def refund(order):\n    return order.total\n",
    "shop/export.py": (
        "import csv\nimport io\n\n\ndef to_csv(rows):\n    out = io.StringIO()\n    writer = csv.writer(out)\n"
        "    for row in rows:\n        writer.writerow([row.number, row.total])\n    return out.getvalue()\n"
    ),
    "shop/ratelimit.py": (
        "import time\n\n\nclass RateLimiter:\n    def __init__(self, per_minute):\n        self.per_minute = per_minute\n"
        "        self.seen = []\n\n    def allow(self):\n        now = time.time()\n        self.seen.append(now)\n        return True\n"
    ),
    "tests/test_auth.py": "from shop.auth import login, logout\n\n\ndef test_login():\n    assert login('a', 'b')\n",
    "tests/test_charge.py": "from shop.payments.charge import charge\n\n\ndef test_charge_retries():\n    assert charge(None)\n",
    "tests/test_export.py": "from shop.export import to_csv\n\n\ndef test_csv():\n    assert to_csv([]) == ''\n",
    "web/src/App.tsx": "import { LoginForm } from './components/LoginForm'\nexport const App = () => <LoginForm />\n",
    "web/src/components/LoginForm.tsx": (
        "import { useState } from 'react'\n\nexport function LoginForm() {\n  const [email, setEmail] = useState('')\n"
        "  const [password, setPassword] = useState('')\n  return <form onSubmit={() => post('/login')}>{email}</form>\n}\n"
    ),
    "web/src/components/OrderTable.tsx": (
        "export function OrderTable({ orders }) {\n  return <table>{orders.map((o) => <tr key={o.id} />)}</table>\n}\n"
    ),
    "web/src/components/DarkModeToggle.tsx": "export const DarkModeToggle = () => <button>theme</button>\n",
    "web/src/styles/theme.css": ":root { --background: white; }\n[data-theme=dark] { --background: black; }\n",
    "web/src/i18n/de.json": '{"login": "Anmelden", "password": "Passwort", "orders": "Bestellungen"}\n',
    "worker/go.mod": "module shop/worker\n",
    "worker/main.go": "package main\n\nfunc main() {\n\tq := NewQueue()\n\tq.Run()\n}\n",
    "worker/queue.go": (
        "package main\n\ntype Queue struct{}\n\nfunc NewQueue() *Queue { return &Queue{} }\n\n"
        "func (q *Queue) Run() {\n\tfor {\n\t\tq.poll()\n\t}\n}\n\nfunc (q *Queue) poll() {}\n"
    ),
    "worker/invoice_mailer.go": (
        "package main\n\n// SendInvoice mails a PDF of an invoice.\nfunc SendInvoice(number int) error {\n\treturn smtp.SendMail(number)\n}\n"
    ),
    "migrations/0001_users.sql": "CREATE TABLE users (email TEXT, password TEXT);\n",
    "migrations/0002_orders.sql": "CREATE TABLE orders (number INT, total INT);\n",
    ".github/workflows/ci.yml": "on: push\njobs:\n  test:\n    steps:\n      - run: make test\n",
    ".gitignore": "*.log\n/build/\n.env\n__pycache__/\nnode_modules/\n",
}


def shop(root: Path) -> None:
    """Writes the repository to a directory."""
    for path, text in _SHOP.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
