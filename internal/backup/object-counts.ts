/** The prefix of all objects of Kubernetes in etcd. */
export const OBJECTS_PREFIX = '/registry/';
/** More resources than any cluster has. Further resources are counted together. */
const MAX_RESOURCES = 2_000;
const OTHERS = 'others';
const MAX_NAME_LENGTH = 256;

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

/** Kubernetes stores services below /registry/services/specs and their endpoints below /registry/services/endpoints. */
const SHARED = 'services';

/**
 * "pods" of `/registry/pods/default/a`, "apps.example.org/things" of `/registry/apps.example.org/things/a`, "nodes" of
 * `/cluster/nodes/a`. The result never contains the name of an object.
 */
export function resourceOf(key: string): string {
  const [first = '', second = '', third] = key.startsWith(OBJECTS_PREFIX)
    ? key.slice(OBJECTS_PREFIX.length).split('/')
    : key.split('/').slice(2);
  const isGroup = (first.includes('.') || first === SHARED) && third !== undefined;
  return (isGroup ? `${first}/${second}` : first).slice(0, MAX_NAME_LENGTH);
}
