/** A file below /etc/apt: `*.list` has one source in each line, `*.sources` is deb822 (sources.list(5)). */
export interface SourcesFile {
  readonly path: string;
  readonly text: string;
}

interface Source {
  readonly uris: readonly string[];
  readonly suites: readonly string[];
  readonly components: readonly string[];
  readonly signedBy: string | undefined;
}

/**
 * The package sources of the host for `suite` and its updates and security suites, one in each line, so that root file systems come from
 * the mirror of this machine. Empty when the host has another distribution.
 */
export function aptSourcesFor(suite: string, files: readonly SourcesFile[]): readonly string[] {
  const wanted = [suite, `${suite}-updates`, `${suite}-security`];
  const all = files.flatMap((file) => (file.path.endsWith('.sources') ? parseDeb822 : parseList)(file.text));
  const chosen = all
    .filter((source) => source.components.includes('main'))
    .flatMap((source) =>
      source.uris.flatMap((uri) =>
        source.suites.filter((each) => wanted.includes(each)).map((each) => oneLine(source, uri, each)),
      ),
    );
  return chosen.some((line) => line.includes(` ${suite} `)) ? [...new Set(chosen)] : [];
}

function oneLine(source: Source, uri: string, suite: string): string {
  const options = source.signedBy === undefined ? '' : `[signed-by=${source.signedBy}] `;
  return `deb ${options}${uri} ${suite} main`;
}

function parseDeb822(text: string): readonly Source[] {
  return text.split(/\n[ \t]*\n/).flatMap((stanza) => {
    const fields = fieldsOf(stanza);
    const words = (name: string): readonly string[] => fields.get(name)?.split(/\s+/).filter(Boolean) ?? [];
    if (!words('types').includes('deb') || fields.get('enabled')?.toLowerCase() === 'no') return [];
    const signedBy = fields.get('signed-by')?.trim();
    return [
      {
        uris: words('uris'),
        suites: words('suites'),
        components: words('components'),
        // The value of `Signed-By` is a path or the key itself. A one-line source can contain only a path.
        signedBy: signedBy?.startsWith('/') === true ? signedBy : undefined,
      },
    ];
  });
}

function fieldsOf(stanza: string): ReadonlyMap<string, string> {
  const fields = new Map<string, string>();
  let current: string | undefined;
  for (const line of stanza.split('\n')) {
    if (line.startsWith('#')) continue;
    const match = /^([A-Za-z-]+):(.*)$/.exec(line);
    if (match?.[1] !== undefined) {
      current = match[1].toLowerCase();
      fields.set(current, (match[2] ?? '').trim());
    } else if (current !== undefined && /^\s/.test(line)) {
      fields.set(current, `${fields.get(current) ?? ''} ${line.trim()}`.trim());
    }
  }
  return fields;
}

function parseList(text: string): readonly Source[] {
  return text.split('\n').flatMap((line) => {
    const match = /^\s*deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s+([^#]+)/.exec(line);
    if (match === null) return [];
    const [, options = '', uri = '', suite = '', components = ''] = match;
    const signedBy = /(?:^|\s)signed-by=(\S+)/.exec(options)?.[1];
    return [{ uris: [uri], suites: [suite], components: components.trim().split(/\s+/), signedBy }];
  });
}
