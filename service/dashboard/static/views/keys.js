// The keys of the tenant.
import { keyPanel } from "../key_panel.js";

export async function show(main, session) {
  const panel = keyPanel("/keys", session.tenant);
  main.append(panel.place);
  await panel.read();
}
