import { Backoff, type Clock } from '../../../internal/clock/index.ts';
import { describeError } from '../../../internal/errors/index.ts';
import { EtcdError, type EtcdClient } from '../../../internal/etcd/index.ts';
import type { EncryptableResource } from '../../../internal/keyset/index.ts';
import { KubeError, type KubeClient } from '../../../internal/kube/client/index.ts';

/** The part of an etcd client that a rewrite uses; it reads from the local member. */
export type EncryptedEtcd = Pick<EtcdClient, 'get' | 'keys' | 'list' | 'compact'>;

/** Ports and inputs of a rewrite. */
export interface RewriteOptions {
  /** Kubernetes' etcd. Reads see at least what the local member has applied (linearizable). */
  readonly etcd: EncryptedEtcd;
  readonly clock: Clock;
  readonly resources: readonly EncryptableResource[];
  /** Name of the key with which every object must be encrypted. */
  readonly keyName: string;
  /** Lets an API server write an object again without a change; resolves also if the object no longer exists. */
  readonly rewrite: (object: ObjectName, signal: AbortSignal) => Promise<void>;
  /** Receives the progress, for people. */
  readonly say: (what: string) => void;
}

/** An object of Kubernetes, as its key in etcd names it. */
export interface ObjectName {
  readonly resource: EncryptableResource;
  readonly namespace: string;
  readonly name: string;
}

/** The result of reading the stored values in Kubernetes' etcd. */
export interface EncryptionCount {
  readonly objects: number;
  /** Objects that are not encrypted with the given key. */
  readonly others: number;
}

const READ_MS = 10_000;
/** Number of parallel reads and writes. It is low, so that the API server stays fast for other clients. */
const PARALLEL = 4;
const PAUSE_MS = 1_000;
const RETRY_PAUSES = { firstMs: 2_000, factor: 2, longestMs: 30_000 };
const COMPACT_MS = 5 * 60_000;
const SAY_EACH = 200;

/**
 * Writes every object again that is not encrypted with the given key, until a pass over all stored values in etcd finds
 * no such object. Then deletes the history of etcd, which still contains older values. Every API server must already
 * encrypt with the given key, so that no object is written with another key meanwhile. Each pass reads the current
 * values from etcd. So a rewrite continues after a crash, and several control planes can rewrite at the same time.
 */
export async function rewriteObjects(options: RewriteOptions, signal: AbortSignal): Promise<EncryptionCount> {
  const { clock, keyName, say } = options;
  const backoff = new Backoff(RETRY_PAUSES);
  for (;;) {
    const pass = new Pass(options, signal);
    const { objects, others } = await countObjects(options, signal, (object) => pass.rewrite(object));
    if (others === 0) {
      await deleteHistory(options.etcd, signal);
      return { objects, others };
    }
    say(
      pass.failure === undefined
        ? `reading ${objects} objects again`
        : `${pass.failures} of ${objects} objects are not encrypted with key ${keyName} yet: ${pass.failure}`,
    );
    if (pass.failure === undefined) backoff.reset();
    await clock.sleep(pass.failure === undefined ? PAUSE_MS : backoff.nextMs(), signal);
  }
}

/**
 * Rewrites objects with an empty patch. An API server writes an object after an empty patch only if the object is not
 * encrypted with the first key of its configuration (k8s.io/apiserver/pkg/storage/etcd3/store.go, GuaranteedUpdate).
 * The API server retries conflicts with other writers. The response does not contain the object's content.
 */
export function rewriteWith(api: Pick<KubeClient, 'write'>): RewriteOptions['rewrite'] {
  return async ({ resource, namespace, name }, signal) => {
    const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/${resource}/${encodeURIComponent(name)}`;
    try {
      await api.write(
        {
          ...{ method: 'PATCH', path, body: {}, contentType: 'application/merge-patch+json' },
          accept: 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1',
        },
        signal,
      );
    } catch (error) {
      if (!(error instanceof KubeError && error.code === 'kube-not-found')) throw error;
    }
  };
}

/**
 * Reads every stored value of the resources from Kubernetes' etcd, and counts the values that are not encrypted with
 * the given key.
 * @param onOther called for each of these values
 */
export async function countObjects(
  {
    etcd,
    resources,
    keyName,
  }: Pick<RewriteOptions, 'resources' | 'keyName'> & { readonly etcd: Pick<EncryptedEtcd, 'get' | 'keys'> },
  signal: AbortSignal,
  onOther: (object: ObjectName) => Promise<void> = () => Promise.resolve(),
): Promise<EncryptionCount> {
  const wanted = Buffer.from(`k8s:enc:secretbox:v1:${keyName}:`, 'utf8');
  let [objects, others] = [0, 0];
  const read = async (resource: EncryptableResource, key: string): Promise<void> => {
    const entry = await etcd.get(key, { signal, timeoutMs: READ_MS });
    if (entry === undefined) return;
    objects += 1;
    if (wanted.equals(entry.value.subarray(0, wanted.length))) return;
    others += 1;
    await onOther(objectFrom(resource, key));
  };
  for (const resource of resources)
    // Reads the newest revision for each page. An object that is created after this read is already encrypted with the
    // new key.
    for await (const keys of etcd.keys(prefixOf(resource), 0n, { signal, timeoutMs: READ_MS }))
      await inParallel(keys, (key) => read(resource, key));
  return { objects, others };
}

/** One pass: rewrites objects and remembers the last failure. A later pass tries again. */
class Pass {
  failures = 0;
  failure: string | undefined;
  readonly #options: RewriteOptions;
  readonly #signal: AbortSignal;
  #done = 0;

  constructor(options: RewriteOptions, signal: AbortSignal) {
    this.#options = options;
    this.#signal = signal;
  }

  async rewrite(object: ObjectName): Promise<void> {
    const { rewrite, say, keyName } = this.#options;
    try {
      await rewrite(object, this.#signal);
    } catch (error) {
      this.#signal.throwIfAborted();
      this.failures += 1;
      this.failure = `${object.resource} ${object.namespace}/${object.name}: ${describeError(error)}`;
    }
    this.#done += 1;
    if (this.#done % SAY_EACH === 1)
      say(`encrypting objects again with key ${keyName}, ${this.#done} so far`);
  }
}

/**
 * Deletes the history of Kubernetes' etcd, because it contains values that are encrypted with replaced keys. After the
 * rotation, no key decrypts them.
 */
async function deleteHistory(etcd: EncryptedEtcd, signal: AbortSignal): Promise<void> {
  const { revision } = await etcd.list('/registry/none/', { signal, timeoutMs: READ_MS });
  try {
    await etcd.compact(revision, { signal, timeoutMs: COMPACT_MS });
  } catch (error) {
    // Another control plane or an API server has compacted this revision.
    if (!(error instanceof EtcdError && error.code === 'etcd-compacted')) throw error;
  }
}

async function inParallel(keys: readonly string[], work: (key: string) => Promise<void>): Promise<void> {
  for (let first = 0; first < keys.length; first += PARALLEL)
    await Promise.all(keys.slice(first, first + PARALLEL).map(work));
}

function prefixOf(resource: EncryptableResource): string {
  return `/registry/${resource}/`;
}

/** "/registry/RESOURCE/NAMESPACE/NAME" */
function objectFrom(resource: EncryptableResource, key: string): ObjectName {
  const [namespace = '', name = ''] = key.slice(prefixOf(resource).length).split('/');
  return { resource, namespace, name };
}
