-- Refunds a hold. Call it only if no noise was drawn for the release.
return (settle("cancel", "cancelled", false))
