/** The outcome of one spec. */
export interface SpecResult {
  readonly name: string;
  readonly outcome: 'passed' | 'failed';
  readonly seconds: number;
  /** The message of a failure. */
  readonly message: string;
}

const ENTITIES: Readonly<Record<string, string>> = { lt: '<', gt: '>', quot: '"', apos: "'", amp: '&' };

/** The specs that ran, from `junit_01.xml` as the tests write it; those that were not selected are left out. */
export function parseJunit(xml: string): readonly SpecResult[] {
  const cases = xml.matchAll(/<testcase ([^>]*?)(?:\/>|>([\s\S]*?)<\/testcase>)/g);
  return [...cases].flatMap(([, head = '', body = '']): readonly SpecResult[] => {
    const name = attribute(head, 'name').replace(/^\[It\] /, '');
    if (!name.includes('[Conformance]') || body.includes('<skipped')) return [];
    const failure = /<(?:failure|error) ([^>]*)/.exec(body)?.[1];
    return [
      {
        name,
        outcome: failure === undefined ? 'passed' : 'failed',
        seconds: Number(attribute(head, 'time')),
        message: failure === undefined ? '' : attribute(failure, 'message'),
      },
    ];
  });
}

/** Adds the selected specs that have no result as failed, because the run ended before it reached them. */
export function withMissing(
  results: readonly SpecResult[],
  selected: readonly string[],
): readonly SpecResult[] {
  const ran = new Set(results.map(({ name }) => name));
  const missing = selected.filter((name) => !ran.has(name));
  return [
    ...results,
    ...missing.map((name) => ({ name, outcome: 'failed', seconds: 0, message: 'did not run' }) as const),
  ];
}

/** A summary for people: how many passed, and each failure with the first line of its message. */
export function formatResults(results: readonly SpecResult[]): string {
  const failed = results.filter(({ outcome }) => outcome === 'failed');
  const lines = failed.map(({ name, message }) => `✖ ${name}\n    ${message.split('\n')[0] ?? ''}`);
  return [...lines, `${results.length - failed.length} of ${results.length} specs passed`].join('\n');
}

function attribute(tag: string, name: string): string {
  const value = new RegExp(`(?:^|\\s)${name}="([^"]*)"`).exec(tag)?.[1] ?? '';
  return value.replace(
    /&(?:#(\d+)|#x([0-9a-f]+)|(\w+));/gi,
    (whole, decimal?: string, hex?: string, word?: string) => {
      if (decimal !== undefined) return String.fromCodePoint(Number(decimal));
      if (hex !== undefined) return String.fromCodePoint(Number.parseInt(hex, 16));
      return ENTITIES[word ?? ''] ?? whole;
    },
  );
}
