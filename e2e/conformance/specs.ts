/** One of several equal parts, counted from 1. */
export interface Shard {
  readonly index: number;
  readonly of: number;
}

/** Which conformance specs run. */
export interface Selection {
  readonly focus: RegExp | undefined;
  readonly skip: RegExp | undefined;
  readonly shard: Shard | undefined;
  /** Run only the specs in the stored list of quick specs. */
  readonly quick: boolean;
}

const TAG = '[Conformance]';

/** @throws TypeError unless the text is `I/N` with 1 ≤ I ≤ N */
export function parseShard(text: string): Shard {
  const [, index = 0, of = 0] = (/^(\d+)\/(\d+)$/.exec(text) ?? []).map(Number);
  if (index >= 1 && index <= of) return { index, of };
  throw new TypeError(`--shard ${text}: use I/N, such as 1/4`);
}

/** The names of all conformance specs in the output of `e2e.test --list-tests`, sorted. */
export function parseSpecNames(listed: string): readonly string[] {
  const names = listed.split('\n').flatMap((line) => {
    // "    k8s.io/kubernetes/test/e2e/apps/daemon_set.go:177: [sig-apps] Daemon set …"
    const [, name] = /^\s+\S+\.go:\d+: (.+)$/.exec(line) ?? [];
    return name?.includes(TAG) === true ? [name] : [];
  });
  return [...new Set(names)].sort();
}

/** The selected specs. A shard has every N-th, so that slow neighbours are in different shards. */
export function selectSpecs(
  names: readonly string[],
  { focus, skip, shard, quick }: Selection,
  quickNames: readonly string[],
): readonly string[] {
  const wanted = names
    .filter((name) => !quick || quickNames.includes(name))
    .filter((name) => focus?.test(name) !== false)
    .filter((name) => skip?.test(name) !== true);
  return shard === undefined ? wanted : wanted.filter((_, at) => at % shard.of === shard.index - 1);
}

/** The expression for ginkgo's `--focus` that matches one spec. */
export function focusOf(name: string): string {
  return `${name.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')}$`;
}
