"""Parts of ``dpoco.accounting.ledger``."""
