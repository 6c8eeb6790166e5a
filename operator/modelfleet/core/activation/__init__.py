"""What an activator decides: whom it holds, what it refuses and tells, and which headers it hands on. Pure."""
