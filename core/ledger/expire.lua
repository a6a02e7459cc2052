-- Moves a hold to spent without an output, because noise may have been drawn for it.
return (settle("expire", "spent", true))
