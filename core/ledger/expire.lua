-- Moves a hold to spent without an output: noise may have been drawn for it.
return (settle("expire", "spent", true))
