/** The style of pages outside the dashboard. It names no other host, and no font that a browser would have to load. */

/** What they share: the dashboard's colours, text and panels. */
export const BASE = `
:root{color-scheme:light dark;--page:#f4f6f5;--panel:#fff;--ink:#16201c;--faint:#56635d;--line:#dbe2df;--hover:#eef2f0;--accent:#1a6350;--on-accent:#fff;--good:#14663d;--bad:#a8241d;--bad-bg:#fdf1f0}
@media (prefers-color-scheme:dark){:root{--page:#0f1412;--panel:#181e1b;--ink:#e8edea;--faint:#a2afa9;--line:#2f3935;--hover:#222a26;--accent:#6fcdb2;--on-accent:#0d1a16;--good:#6fd19b;--bad:#ff948a;--bad-bg:#2a1a18}}
*{box-sizing:border-box}
[hidden]{display:none!important}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;-webkit-text-size-adjust:100%}
.panel{background:var(--panel);border:1px solid var(--line);border-radius:14px;padding:1.75rem;box-shadow:0 1px 2px rgb(15 30 25/5%),0 12px 32px rgb(15 30 25/6%)}
h1{margin:0;font-size:1.25rem;line-height:1.35;font-weight:600;overflow-wrap:anywhere}
.note{margin:1rem 0 0;color:var(--faint);font-size:.875rem}
details{margin-top:1.25rem;padding-top:1rem;border-top:1px solid var(--line);font-size:.875rem}
summary{color:var(--faint);cursor:pointer;border-radius:6px}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
a{color:var(--accent);text-underline-offset:3px}`;

/** The payment page's. */
export const STYLE = `${BASE}
main{min-height:100vh;display:flex;flex-direction:column}
#form{width:100%;max-width:27rem;margin:auto;padding:1.5rem 1rem}
.site{margin:0 0 .35rem;color:var(--faint);font-size:.875rem;overflow-wrap:anywhere}
.price{margin:1.25rem 0;padding:1.1rem 0;border:solid var(--line);border-width:1px 0}
#amount{display:block;font-size:2rem;line-height:1.2;font-weight:650;letter-spacing:-.02em;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
#network{color:var(--faint);font-size:.9375rem}
fieldset{margin:0 0 1.25rem;padding:0;border:0;min-width:0}
legend{padding:0;margin-bottom:.5rem;font-size:.875rem;color:var(--faint)}
.option{display:flex;align-items:center;gap:.7rem;padding:.7rem .85rem;border:1px solid var(--line);cursor:pointer}
.option+.option{border-top:0}
.option:first-of-type{border-radius:10px 10px 0 0}
.option:last-of-type{border-radius:0 0 10px 10px}
.option:hover{background:var(--hover)}
.option b{font-weight:600;font-variant-numeric:tabular-nums}
.option span{margin-left:auto;color:var(--faint);font-size:.875rem}
input[type=radio]{accent-color:var(--accent);width:1.05rem;height:1.05rem;margin:0;flex:none}
button{font:inherit;cursor:pointer;border-radius:10px}
#action{width:100%;padding:.8rem 1rem;border:0;background:var(--accent);color:var(--on-accent);font-weight:600}
#action:hover{filter:brightness(1.08)}
#action[aria-disabled=true]{cursor:default;background:var(--hover);color:var(--faint);filter:none}
.choice{display:block;width:100%;margin-bottom:.5rem;padding:.75rem 1rem;border:1px solid var(--line);background:transparent;color:var(--ink);text-align:left;overflow-wrap:anywhere}
.choice:hover{background:var(--hover)}
#other{display:block;margin:.5rem auto 0;padding:.35rem .75rem;border:0;background:none;color:var(--accent);font-size:.9375rem}
#account{margin:0 0 .6rem;color:var(--faint);font-size:.9375rem}
#status,#problem{margin:.9rem 0 0;font-size:.9375rem}
#account:empty,#status:empty,#problem:empty{margin:0;padding:0}
#status{color:var(--faint)}
#status.busy::before{content:"";display:inline-block;width:.85em;height:.85em;margin-right:.55em;vertical-align:-.08em;border:2px solid var(--line);border-top-color:var(--accent);border-radius:50%;animation:turn .9s linear infinite}
@keyframes turn{to{transform:rotate(1turn)}}
#problem,.problem{padding:.7rem .85rem;border-radius:10px;background:var(--bad-bg);color:var(--bad);overflow-wrap:anywhere}
dl{margin:.75rem 0 0}
dt{color:var(--faint)}
dd{margin:0 0 .6rem;font-family:ui-monospace,"SF Mono",Consolas,monospace;font-size:.8125rem;overflow-wrap:anywhere}
#bought{flex:1;display:flex;flex-direction:column;min-height:0}
.bar{display:flex;align-items:baseline;gap:.25rem 1.25rem;flex-wrap:wrap;padding:.75rem 1.25rem;background:var(--panel);border-bottom:1px solid var(--line)}
.bar h1{font-size:1rem;outline-offset:4px}
#line{margin:0;color:var(--faint);font-size:.9375rem}
#receipt{margin:0;max-width:16rem;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;color:var(--faint);font-size:.875rem}
#save{margin-left:auto;font-size:.9375rem}
#content{flex:1;display:flex;min-height:0}
#content>iframe{flex:1;width:100%;min-height:calc(100vh - 3.5rem);border:0;background:#fff;color-scheme:light}
#content>img{max-width:100%;height:auto;margin:1.5rem auto;padding:0 1rem;align-self:flex-start}
#content>pre{flex:1;min-width:0;margin:0;padding:1.25rem;overflow:auto;font:.875rem/1.55 ui-monospace,"SF Mono",Consolas,monospace;white-space:pre-wrap;overflow-wrap:anywhere}
#content>p{margin:2rem auto;padding:0 1.25rem}
@media (max-width:26rem){#form{margin:0;padding:0}.panel{min-height:100vh;border:0;border-radius:0;box-shadow:none;padding:1.5rem 1.25rem}}
@media (prefers-reduced-motion:reduce){#status.busy::before{animation:none}}
@media (forced-colors:active){#action{border:1px solid}}
`;
