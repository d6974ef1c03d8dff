import { beforeEach, describe, expect, test } from '@jest/globals';
import { EtcdError } from '../../../internal/etcd/index.ts';
import { KubeError, type KubeClient } from '../../../internal/kube/index.ts';
import { FakeClock, settle } from '../../../internal/testing/index.ts';
import {
  countObjects,
  rewriteObjects,
  rewriteWith,
  type EncryptedEtcd,
  type ObjectName,
} from './rewrite-objects.ts';

const signal = new AbortController().signal;
const NEW = 'g2-0123456789ab';
const resources = ['secrets', 'configmaps'] as const;
const under = (name: string): Uint8Array => Buffer.from(`k8s:enc:secretbox:v1:${name}:bytes`);

/** Kubernetes' etcd, and the API server in front of it. */
class FakeKubernetes implements EncryptedEtcd {
  readonly values = new Map<string, Uint8Array>();
  readonly compacted: bigint[] = [];
  readonly asked: string[] = [];
  readonly clock = new FakeClock();
  readonly said: string[] = [];
  /** The behaviour of the fake API server instead of a rewrite. */
  answer: ((object: ObjectName) => Promise<void>) | undefined;
  revision = 100n;

  get = (key: string) => {
    const value = this.values.get(key);
    const entry = { createRevision: 1n, modRevision: 1n, leaseId: 0n };
    return Promise.resolve(value && { ...entry, key, value });
  };
  keys = async function* (this: FakeKubernetes, prefix: string) {
    await Promise.resolve();
    const found = [...this.values.keys()].filter((key) => key.startsWith(prefix)).toSorted();
    for (let first = 0; first < found.length; first += 3) yield found.slice(first, first + 3);
  }.bind(this);
  list = () => Promise.resolve({ revision: this.revision, entries: [] });
  compact = (revision: bigint) => {
    this.compacted.push(revision);
    return Promise.resolve();
  };

  rewrite = async (object: ObjectName): Promise<void> => {
    const { resource, namespace, name } = object;
    this.asked.push(`${resource}/${namespace}/${name}`);
    if (this.answer !== undefined) return this.answer(object);
    this.store(object);
  };
  store({ resource, namespace, name }: ObjectName): void {
    this.values.set(`/registry/${resource}/${namespace}/${name}`, under(NEW));
  }

  run(signalOfRun = signal) {
    const options = { etcd: this, clock: this.clock, resources, keyName: NEW, rewrite: this.rewrite };
    return rewriteObjects({ ...options, say: (what) => void this.said.push(what) }, signalOfRun);
  }
  /** Advances the clock by more than one pass. */
  async advance(): Promise<void> {
    for (let round = 0; round < 40; round++) {
      await settle();
      await this.clock.advance(1_000);
    }
  }
}

let kubernetes: FakeKubernetes;
beforeEach(() => {
  kubernetes = new FakeKubernetes();
  for (let index = 0; index < 10; index++)
    kubernetes.values.set(`/registry/secrets/a/s${index}`, under('key1'));
  kubernetes.values.set('/registry/secrets/b/new', under(NEW));
  kubernetes.values.set('/registry/secrets/b/longer', under(`${NEW}1`));
  kubernetes.values.set('/registry/configmaps/b/clear', Buffer.from('k8s\0 in the clear'));
  kubernetes.values.set('/registry/pods/b/pod', Buffer.from('k8s\0 a pod'));
});

describe('rewriteObjects()', () => {
  test('rewrites every object that is unencrypted or encrypted with another key, then deletes the history', async () => {
    const done = kubernetes.run();
    await kubernetes.advance();
    expect(await done).toEqual({ objects: 13, others: 0 });
    expect(kubernetes.asked.toSorted()).toEqual(
      [
        ...Array.from({ length: 10 }, (_, index) => `secrets/a/s${index}`),
        'secrets/b/longer',
        'configmaps/b/clear',
      ].toSorted(),
    );
    expect(kubernetes.compacted).toEqual([100n]);
  });

  test('only reads after another control plane has rewritten all objects', async () => {
    const first = kubernetes.run();
    await kubernetes.advance();
    await first;
    kubernetes.asked.length = 0;
    expect(await kubernetes.run()).toEqual({ objects: 13, others: 0 });
    expect(kubernetes.asked).toEqual([]);
  });

  test('does not end, and deletes no history, while an object is encrypted with another key', async () => {
    kubernetes.answer = (object) => {
      if (object.name !== 's3') kubernetes.store(object);
      return object.name === 's3'
        ? Promise.reject(new KubeError('kube-refused', 'denied by a webhook'))
        : Promise.resolve();
    };
    const done = kubernetes.run();
    await kubernetes.advance();
    expect(kubernetes.compacted).toEqual([]);
    expect(kubernetes.said.at(-1)).toMatch(
      /^1 of 13 objects are not encrypted with key .*secrets a\/s3: denied by a webhook/,
    );
    kubernetes.answer = undefined;
    await kubernetes.advance();
    await kubernetes.advance();
    expect(await done).toEqual({ objects: 13, others: 0 });
  });

  test('checks the stored value even if the API server reports that it has rewritten the object', async () => {
    kubernetes.answer = () => Promise.resolve();
    const stop = new AbortController();
    const done = kubernetes.run(stop.signal);
    const refused = expect(done).rejects.toThrow('stopped');
    await kubernetes.advance();
    expect(kubernetes.compacted).toEqual([]);
    stop.abort(new Error('stopped'));
    await refused;
  });

  test('succeeds if etcd has already deleted the history', async () => {
    kubernetes.compact = () => Promise.reject(new EtcdError('etcd-compacted', 'compacted'));
    const done = kubernetes.run();
    await kubernetes.advance();
    expect(await done).toMatchObject({ others: 0 });
  });
});

test('countObjects() counts the objects that are encrypted with another key, and leaves out objects that are deleted meanwhile', async () => {
  const { get } = kubernetes;
  kubernetes.get = (key) => (key.endsWith('s9') ? Promise.resolve(undefined) : get(key));
  const count = (keyName: string) => countObjects({ etcd: kubernetes, resources, keyName }, signal);
  expect([await count(NEW), await count('key1')]).toEqual([
    { objects: 12, others: 11 },
    { objects: 12, others: 3 },
  ]);
});

describe('rewriteWith()', () => {
  const object: ObjectName = { resource: 'secrets', namespace: 'a', name: 'x..y' };
  const answered = async (error?: KubeError) => {
    const asked: unknown[] = [];
    const api: Pick<KubeClient, 'write'> = {
      write: (change) => {
        asked.push(change);
        return error === undefined ? Promise.resolve() : Promise.reject(error);
      },
    };
    await rewriteWith(api)(object, signal);
    return asked;
  };

  test('sends an empty patch, and requests a response without the content of the object', async () => {
    expect(await answered()).toMatchObject([
      {
        ...{ method: 'PATCH', path: '/api/v1/namespaces/a/secrets/x..y', body: {} },
        ...{
          contentType: 'application/merge-patch+json',
          accept: expect.stringContaining('PartialObjectMetadata'),
        },
      },
    ]);
  });

  test('succeeds if the object was deleted, and fails on any other refusal', async () => {
    await answered(new KubeError('kube-not-found', 'gone'));
    await expect(answered(new KubeError('kube-refused', 'no'))).rejects.toMatchObject({
      code: 'kube-refused',
    });
  });
});
