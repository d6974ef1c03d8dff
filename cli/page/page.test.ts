import { createHash } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import {
  contentPolicy,
  html,
  joinPlot,
  lineChart,
  renderDocument,
  stripPlot,
  tileMap,
  timeLinePlot,
} from './index.ts';

const HOSTILE = `"><script>alert(1)</script><img src=x onerror='alert(2)'>&\u202e\u0007`;
/** No tag and no attribute of an attacker: what is left is text. */
const hasMarkup = (text: string): boolean => /<(?:script|img)|["']\s*onerror|[\u202e\u0007]/.test(text);

describe('html`…`', () => {
  test('escapes every text, in elements and in attributes', () => {
    const { text } = html`<p title="${HOSTILE}">${HOSTILE}</p>`;
    expect(hasMarkup(text)).toBe(false);
    expect(text).toContain('&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;');
  });

  test('keeps markup that another template made, and lists of it', () => {
    const list = ['a', '<'].map((each) => html`<i>${each}</i>`);
    expect(html`<b>${list}${undefined}</b>`.text).toBe('<b><i>a</i><i>&lt;</i></b>');
  });

  test('escapes an object that only looks like markup', () => {
    const fake = { text: HOSTILE } as unknown as string;
    expect(() => html`${fake}`).toThrow(TypeError);
  });
});

describe('renderDocument()', () => {
  test('names nothing outside of the page', () => {
    const page = renderDocument({ title: 'x', body: html`<p>x</p>` });
    expect(page).not.toMatch(/https?:|\/\/|url\(|@import|src=|href=/);
  });

  test('escapes the title', () => {
    expect(hasMarkup(renderDocument({ title: HOSTILE, body: undefined }))).toBe(false);
  });

  test('allows the script and style of the page by their hash, and nothing else', () => {
    const script = 'document.title = 1;';
    const page = renderDocument({ title: 'x', body: 'y', script });
    const hash = (text: string): string => createHash('sha256').update(text, 'utf8').digest('base64');
    const [, style = ''] = /<style>([\s\S]*?)<\/style>/.exec(page) ?? [];
    const policy = contentPolicy({ script });
    expect(policy).toContain(`style-src 'sha256-${hash(style)}'`);
    expect(policy).toContain(`script-src 'sha256-${hash(script)}'`);
    expect(policy).toMatch(/^default-src 'none'; /);
    expect(policy).not.toMatch(/unsafe|\*/);
    expect(contentPolicy({})).not.toContain('script-src');
  });
});

test.each([
  {
    name: 'joinPlot()',
    made: joinPlot([{ side: 'machine', name: HOSTILE, tone: 'good', timeMs: 1, text: HOSTILE }]),
  },
  {
    name: 'lineChart()',
    made: lineChart(
      [
        {
          name: HOSTILE,
          color: 9,
          points: [
            { atMs: 0, value: 1 },
            { atMs: 5, value: 2 },
          ],
        },
      ],
      { fromMs: 0, toMs: 5 },
    ),
  },
  {
    name: 'stripPlot()',
    made: stripPlot([{ name: HOSTILE, parts: [{ from: 0, to: 1, tone: 'good', text: HOSTILE }] }], 1000),
  },
  {
    name: 'timeLinePlot()',
    made: timeLinePlot(
      [{ name: HOSTILE, dots: [{ position: 0.5, tone: 'bad', text: HOSTILE }] }],
      [{ label: '1d', position: 0 }],
    ),
  },
  {
    name: 'tileMap()',
    made: tileMap([{ title: HOSTILE, tiles: [{ name: HOSTILE, tone: 'idle', text: HOSTILE }] }]),
  },
])('$name draws texts of attackers as text, and only finite numbers', ({ made }) => {
  expect(hasMarkup(made.text)).toBe(false);
  expect(made.text).not.toMatch(/NaN|Infinity|undefined/);
});
