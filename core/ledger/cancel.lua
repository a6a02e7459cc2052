-- Refunds a hold: only where no noise was drawn for it.
return (settle("cancel", "cancelled", false))
