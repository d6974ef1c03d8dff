/** The metrics of one process, and the labels that distinguish it from others. */
export interface MetricsPage {
  readonly labels: Readonly<Record<string, string>>;
  /** Prometheus' text format; undefined when the process did not respond. */
  readonly page: string | undefined;
}

/**
 * Merges the pages of several processes: each sample gets the labels of its page, and each family has one HELP and one TYPE line, as
 * the format requires (Prometheus text format 0.0.4).
 */
export function mergeMetrics(pages: readonly MetricsPage[]): string {
  const families = new Map<string, { readonly head: string[]; readonly samples: string[] }>();
  for (const { labels, page } of pages) {
    const added = Object.entries(labels).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
    let family = '';
    for (const line of (page ?? '').split('\n').filter((text) => text !== '')) {
      const [, keyword, name] = /^# (HELP|TYPE) (\S+)/.exec(line) ?? [];
      if (name !== undefined) family = name;
      const now = families.get(family) ?? { head: [], samples: [] };
      families.set(family, now);
      if (keyword === undefined) now.samples.push(labelled(line, added));
      else if (!now.head.some((known) => known.startsWith(`# ${keyword} `))) now.head.push(line);
    }
  }
  return [...families.values()]
    .flatMap(({ head, samples }) => [...head, ...samples])
    .map((line) => `${line}\n`)
    .join('');
}

/** Adds labels to `name{a="b"} 1` or `name 1`. */
function labelled(sample: string, added: readonly string[]): string {
  const [, name = '', labels, rest = ''] = /^([^\s{]+)(?:\{(.*)\})?(\s.*)$/.exec(sample) ?? [];
  if (name === '' || added.length === 0) return sample;
  const all = [...(labels === undefined || labels === '' ? [] : [labels.replace(/,$/, '')]), ...added];
  return `${name}{${all.join(',')}}${rest}`;
}
