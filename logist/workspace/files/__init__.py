"""Files that an agent may have made: opened, read, named and removed safely."""
