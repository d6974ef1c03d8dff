import { randomBytes } from 'node:crypto';
import type { StoryCluster } from '../harness/story-cluster.ts';
import { etcdctlArgv } from '../harness/node-shell.ts';
import { openSecretbox } from './secretbox.ts';

const PREFIX = /^k8s:enc:secretbox:v1:([^:]+):/;

/** An attacker with a copy of the encryption keys on a control plane's disk, who gets hold of the values in Kubernetes' etcd. */
export class EncryptionKeyThief {
  readonly #keys: readonly Uint8Array[];

  private constructor(keys: readonly Uint8Array[]) {
    this.#keys = keys;
  }

  /** Copies every key that a machine has in its configuration and in its key set. */
  static async of(cluster: StoryCluster, machine: string): Promise<EncryptionKeyThief> {
    const files = '/etc/kubernetes/encryption/config.json /var/lib/cluster/keys/rotation.json';
    const text = await cluster.sh(machine, `cat ${files} 2>/dev/null || true`);
    const found = [...text.matchAll(/"secret":"([A-Za-z0-9+/=]{44})"/g)].map(([, key = '']) => key);
    if (found.length === 0) throw new Error(`no encryption key on ${machine}`);
    return new EncryptionKeyThief([...new Set(found)].map((key) => Buffer.from(key, 'base64')));
  }

  /** Whether both have a key in common. */
  shares(other: EncryptionKeyThief): boolean {
    return this.#keys.some((key) => other.#keys.some((each) => Buffer.compare(key, each) === 0));
  }

  /** Reads every stored secret and ConfigMap from the etcd of a machine, and tries the stolen keys. */
  async tryAll(
    cluster: StoryCluster,
    machine: string,
  ): Promise<{ all: number; opened: number; texts: string }> {
    let [all, opened, texts] = [0, 0, ''];
    for (const resource of ['secrets', 'configmaps']) {
      const get = ['get', '--prefix', `/registry/${resource}/`, '--write-out', 'json'];
      const [etcdctl, ...access] = etcdctlArgv('kubernetes-root');
      const { kvs = [] } = JSON.parse(await cluster.run(machine, etcdctl, ...access, ...get)) as {
        kvs?: { value: string }[];
      };
      for (const { value } of kvs) {
        all += 1;
        const text = this.#open(Buffer.from(value, 'base64'));
        if (text === undefined) continue;
        opened += 1;
        texts += text;
      }
    }
    return { all, opened, texts };
  }

  #open(stored: Buffer): string | undefined {
    const [prefix] = PREFIX.exec(stored.toString('latin1')) ?? [];
    if (prefix === undefined) return stored.toString('latin1'); // This value is not encrypted.
    for (const key of this.#keys) {
      const text = openSecretbox(key, stored.subarray(prefix.length));
      if (text !== undefined) return Buffer.from(text).toString('latin1');
    }
    return undefined;
  }
}

/** A text that appears in one secret only. */
export function uniqueText(): string {
  return `unique-${randomBytes(8).toString('hex')}`;
}
