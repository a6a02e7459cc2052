"""What the routes of alerts do: store rules after checking them, show them without their secrets, send samples."""

from typing import cast

from core.errors import UnknownName
from core.ledger.hash_chain.admin_log import AdminLog
from core.redis import names
from core.redis.names import SHARED_OWNER
from core.state.alerts import Alert, AlertPage, AlertStore, Place, new_alert_id
from service.admission import RateLimit
from service.alerts.delivery import WebhookSender, new_secret, send
from service.alerts.evaluation import Rule, event_body, parse_rule
from service.alerts.rules import KINDS_BY_NAME
from service.alerts.schemas import AlertRule, AlertsPage, FiredAlert, OperatorRuleBody, RuleBody


class AlertService:
    """`samples`: how many samples an owner may send."""

    def __init__(self, store: AlertStore, webhooks: WebhookSender, log: AdminLog, *, samples: RateLimit) -> None:
        self._store = store
        self._webhooks = webhooks
        self._log = log
        self._samples = samples

    async def rules(self, owner: str) -> list[AlertRule]:
        """The rules of an owner by name."""
        found = []
        for name in await self._store.rule_names(owner):
            try:
                found.append(await self.rule(owner, name))
            except UnknownName:
                continue  # deleted since
        return found

    async def rule(self, owner: str, name: str) -> AlertRule:
        """One rule. Raises UnknownName."""
        return await self._block(parse_rule(owner, name, await self._store.rule(owner, name)))

    async def put(self, owner: str, name: str, body: RuleBody, *, by: str) -> tuple[AlertRule, bool]:
        """Store a rule. Returns it, with the secret of its webhook if that is new, and whether the rule is new.

        Raises InvalidInput for an address that no alert goes to, UnknownAccount for an account of another tenant,
        TenantLimitReached.
        """
        names.check_rule(name)
        self._check(owner, body)
        secret, is_new_secret = await self._secret(owner, name, body)
        rule = Rule(
            owner=owner,
            name=name,
            kind=KINDS_BY_NAME[body.when.kind],
            terms=body.when,
            url=body.webhook.url if body.webhook else None,
            secret=secret,
            tenants=tuple(body.tenants) if isinstance(body, OperatorRuleBody) and body.tenants is not None else None,
        )
        async with self._log.before(by=by, action="alert.put", target=_target(owner, name)):
            is_new = await self._store.put_rule(owner, name, rule.content())
        block = await self._block(rule)
        if is_new_secret and block["webhook"] is not None:
            block["webhook"]["secret"] = secret
        return block, is_new

    async def delete(self, owner: str, name: str, *, by: str) -> None:
        """Delete a rule. Raises UnknownName."""
        await self._store.rule(owner, name)
        async with self._log.before(by=by, action="alert.delete", target=_target(owner, name)):
            await self._store.delete_rule(owner, name)

    async def send_sample(self, owner: str, name: str) -> dict[str, str]:
        """Send a sample once to the webhook of a rule. Returns the result, nothing without a webhook.

        Raises UnknownName, HTTPException 429 for too many: they would be a flood for whoever gets them.
        """
        rule = parse_rule(owner, name, await self._store.rule(owner, name))
        await self._samples.take(owner)
        now_ms = await self._store.now_ms()
        alert = Alert(new_alert_id(), name, rule.kind.name, owner, "sample", now_ms, now_ms, {})
        body = event_body("sample", alert)
        return {"webhook": await send(self._webhooks, rule, f"{alert.alert_id}.sample", body)} if rule.url else {}

    async def page(self, owner: str, place: Place | None, *, cursor: str | None, limit: int) -> AlertsPage:
        """Alerts that fired, newest first."""
        found: AlertPage = await self._store.page(owner, place, cursor=cursor, limit=limit)
        alerts = [cast(FiredAlert, alert.block()) for alert in found.alerts]
        return {"alerts": alerts, "next_cursor": found.next_cursor}

    def _check(self, owner: str, body: RuleBody) -> None:
        if owner != SHARED_OWNER:
            for account in getattr(body.when, "accounts", None) or ():
                names.parse_account_id(owner, account)
        if body.webhook is not None:
            self._webhooks.check(body.webhook.url)

    async def _secret(self, owner: str, name: str, body: RuleBody) -> tuple[str | None, bool]:
        if body.webhook is None:
            return None, False
        try:
            known = (await self._store.rule(owner, name))["secret"]
        except UnknownName:
            known = None
        if known is not None and not body.webhook.new_secret:
            return known, False
        return new_secret(), True

    async def _block(self, rule: Rule) -> AlertRule:
        last = await self._store.last_delivery(rule.owner, rule.name)
        block: AlertRule = {
            "name": rule.name,
            "when": rule.terms.model_dump(),
            "webhook": {"url": rule.url} if rule.url else None,
            "last_delivery": {"webhook": {"at_ms": last[0], "result": last[1]}} if last else {},
        }
        if rule.owner == SHARED_OWNER:
            block["tenants"] = None if rule.tenants is None else list(rule.tenants)
        return block


def _target(owner: str, name: str) -> str:
    return f"{'operator' if owner == SHARED_OWNER else owner}/{name}"
