/**
 * The script of the page. It replaces the content of parts that have changed, with markup in which the server has escaped every text,
 * and writes log lines as text. It must not contain "</script".
 */
export const PAGE_SCRIPT = `'use strict';
const part = (id) => document.getElementById(id);
const shown = new Map();
let node = '';
let logs;

function show(id, markup) {
  if (shown.get(id) === markup) return;
  shown.set(id, markup);
  part(id).innerHTML = markup;
}

async function refresh() {
  try {
    const answer = await fetch('data?node=' + encodeURIComponent(node), { cache: 'no-store' });
    if (!answer.ok) throw new Error(await answer.text());
    const { title, parts } = await answer.json();
    document.title = title;
    for (const [id, markup] of Object.entries(parts)) show(id, markup);
    part('lost').hidden = true;
  } catch (error) {
    part('lost').hidden = false;
    part('lost').textContent = 'No answer from the command since ' + new Date().toISOString().slice(11, 19) + 'Z: ' + error.message;
  }
}

async function follow() {
  for (;;) {
    await refresh();
    await new Promise((resolve) => setTimeout(resolve, part('lost').hidden ? 1000 : 3000));
  }
}

function openLogs(name, path) {
  if (logs) logs.close();
  const lines = part('log-lines');
  lines.textContent = '';
  part('logs').hidden = false;
  part('log-title').textContent = 'Logs of ' + name + (path ? ' ' + path : '');
  logs = new EventSource('logs?node=' + encodeURIComponent(name) + '&path=' + encodeURIComponent(path));
  logs.onmessage = (event) => {
    const isAtEnd = lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 8;
    const all = lines.textContent.split('\\n').concat(JSON.parse(event.data)).slice(-2000);
    lines.textContent = all.filter((line) => line !== '').join('\\n');
    if (isAtEnd) lines.scrollTop = lines.scrollHeight;
  };
  logs.addEventListener('end', (event) => { logs.close(); part('log-title').textContent += ' – ended: ' + JSON.parse(event.data); });
  part('logs').scrollIntoView({ block: 'nearest' });
}

document.addEventListener('click', (event) => {
  const found = event.target.closest('[data-node],[data-log-node],[data-close]');
  if (!found) return;
  const { node: chosen, logNode, logPath = '' } = found.dataset;
  if (logNode !== undefined) openLogs(logNode, logPath);
  else if (chosen !== undefined) { node = chosen; refresh().then(() => part('node').scrollIntoView({ block: 'nearest' })); }
  else { if (logs) logs.close(); part('logs').hidden = true; }
});
follow();
`;
