"""The style sheet of the page about a synthesis, for light and dark mode."""

STYLE = """
:root { color-scheme: light dark; --ink: #1d2330; --soft: #5b6475; --paper: #fff; --card: #f5f6f9; --edge: #d9dde6;
  --free: #1b7a4b; --paid: #b3401f; --mark: #111; --c0: #3565c4; --c1: #d98a1f; --c2: #2c9a77; --c3: #9a4fb3;
  --c4: #c4485f; --c5: #6b7280 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e7eaf1; --soft: #a2abbd; --paper: #14171e; --card: #1d222c; --edge: #333b4a;
    --free: #5ccb95; --paid: #f08a66; --mark: #fff; --c0: #7fa6f5; --c1: #f2b45c; --c2: #62cfa9; --c3: #c98fe0;
    --c4: #f08a9c; --c5: #9aa3b2 }
}
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif }
main { max-width: 1080px; margin: 0 auto; padding: 32px 20px 64px }
h1 { font-size: 26px; margin: 0 }
h2 { font-size: 18px; margin: 36px 0 8px }
h3 { font-size: 14px; margin: 0 0 4px; font-weight: 600; overflow-wrap: anywhere }
p { margin: 6px 0; max-width: 76ch }
figure { margin: 0; min-width: 0 }
ul { margin: 6px 0; padding-left: 20px }
dl { display: grid; margin: 0; grid-template-columns: auto 1fr; gap: 4px 16px }
dt { color: var(--soft) }
dd { margin: 0 }
table { border-collapse: collapse }
td, th { padding: 3px 14px 3px 0; text-align: left; border-bottom: 1px solid var(--edge); overflow-wrap: anywhere }
th { color: var(--soft); font-weight: 400; vertical-align: bottom }
.number { text-align: right; overflow-wrap: normal }
.soft { color: var(--soft) }
.grid { display: grid; gap: 14px; grid-template-columns: repeat(auto-fill, minmax(280px, 1fr)) }
.two { display: grid; gap: 14px; grid-template-columns: repeat(auto-fit, minmax(300px, 1fr)) }
.two + .two { margin-top: 14px }
.card { background: var(--card); border: 1px solid var(--edge); border-radius: 8px; padding: 12px 14px }
.free { border-left: 4px solid var(--free) }
.paid { border-left: 4px solid var(--paid) }
.private { border: 2px solid var(--paid); font-weight: 600 }
.key { display: inline-block; margin-right: 14px }
.key svg { display: inline; width: 12px; height: 12px; vertical-align: -1px }
svg { width: 100%; height: auto; display: block }
svg text { font: 11px system-ui, sans-serif; fill: var(--soft) }
.s0 { fill: var(--c0) }
.s1 { fill: var(--c1) }
.s2 { fill: var(--c2) }
.s3 { fill: var(--c3) }
.s4 { fill: var(--c4) }
.s5 { fill: var(--c5) }
.mark { stroke: var(--mark); stroke-width: 2 }
.rule { stroke: var(--edge) }
.curve { fill: none; stroke: var(--c0); stroke-width: 2 }
.heat { fill: var(--c0); stroke: var(--edge); stroke-width: .5 }
"""
