import { html, renderDocument } from '../../page/index.ts';
import { PAGE_SCRIPT } from './page-script.ts';

/** The page without content: its script fills the parts by their IDs (`partsOf()`). */
export function renderPage(): string {
  return renderDocument({
    title: 'cluster',
    script: PAGE_SCRIPT,
    body: html`<p id="lost" class="bad" role="alert" hidden></p>
      <header id="head"></header>
      <main>
        <section id="summary"></section>
        <section id="problems"></section>
        <section id="map"></section>
        <section id="heartbeats"></section>
        <section class="wide"><div class="scroll" id="nodes"></div></section>
        <section class="wide" id="node"></section>
        <section class="wide" id="logs" hidden>
          <h2 id="log-title"></h2>
          <pre id="log-lines"></pre>
          <button data-close="logs">close</button>
        </section>
        <div class="wide" id="trace"></div>
        <section id="latencies"></section>
        <section id="certificates"></section>
        <section class="wide"><div class="scroll" id="decisions"></div></section>
      </main>`,
  });
}
