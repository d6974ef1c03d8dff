const REGISTRY = '/registry/';
/** More resources than any cluster has. Later ones are counted together. */
const MAX_RESOURCES = 2_000;
const OTHERS = 'others';

/** Counts the keys of an etcd by resource, so that a restored cluster can be compared with its backup. */
export class ObjectCounts {
  readonly #counts = new Map<string, number>();

  add(keys: readonly string[]): void {
    for (const key of keys) {
      const resource = resourceOf(key);
      const isKnown = this.#counts.has(resource) || this.#counts.size < MAX_RESOURCES;
      const name = isKnown ? resource : OTHERS;
      this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
    }
  }

  get byResource(): Readonly<Record<string, number>> {
    return Object.fromEntries([...this.#counts].toSorted(([a], [b]) => (a < b ? -1 : 1)));
  }
}

/**
 * "pods" of `/registry/pods/default/a`, "apps.example.org/things" of `/registry/apps.example.org/things/a`, "nodes" of
 * `/cluster/nodes/a`. The names of objects are not part of it.
 */
function resourceOf(key: string): string {
  const [first = '', second = '', third] = key.startsWith(REGISTRY)
    ? key.slice(REGISTRY.length).split('/')
    : key.split('/').slice(2);
  return (first.includes('.') && third !== undefined ? `${first}/${second}` : first).slice(0, 256);
}
