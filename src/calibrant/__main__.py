"""``python -m calibrant``."""

from calibrant.commands.app import main

if __name__ == "__main__":
    main()
