import type { FilePort } from '../../internal/file/index.ts';
import { trustedPem, signingPair, parseKeySet } from '../../internal/keyset/index.ts';
import { KeyCertificateSigner } from '../../internal/pki/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { SignerError } from './errors.ts';

const MAX_BYTES = 64 * 1024;

/**
 * What every control-plane node has and nobody else, by the name it has in a ticket's sealed keys. On disk the files of
 * the key ring have the same names.
 */
export const CONTROL_PLANE_KEYS = [
  'cluster-ca.crt',
  'cluster-ca.key',
  'etcd-clients-ca.crt',
  'etcd-clients-ca.key',
  'etcd-peers-ca.crt',
  'etcd-peers-ca.key',
  'state-clients-ca.crt',
  'state-clients-ca.key',
  'state-peers-ca.crt',
  'state-peers-ca.key',
  'kubernetes-ca.crt',
  'kubernetes-ca.key',
  'front-proxy-ca.crt',
  'front-proxy-ca.key',
  'service-account.key',
  'service-account.pub',
  'encryption.json',
] as const;

/**
 * Beside them once they were replaced: which of two generations is believed, and which signs (internal/keyset). The others
 * are then the ones that sign.
 */
export const ROTATION_KEY = 'rotation.json';

type KeyName = (typeof CONTROL_PLANE_KEYS)[number];

/** Who signs for clients of Kubernetes, and whom their servers believe. */
export interface KubernetesClientsCa {
  readonly signer: KeyCertificateSigner;
  /** PEM, one after the other; undefined: the Kubernetes CA, for clients as for servers. */
  readonly trustedPem: string | undefined;
}

/** The cluster's keys as this node has them. Read each time they are used, and held no longer. */
export class KeyRing {
  readonly #files: FilePort;
  readonly #directory: string;
  readonly #nowMs: () => number;

  constructor(options: {
    readonly files: FilePort;
    readonly directory: string;
    readonly nowMs: () => number;
  }) {
    this.#files = options.files;
    this.#directory = options.directory;
    this.#nowMs = options.nowMs;
  }

  /** Throws `signer-key-missing`. */
  async certificateAuthority(name: 'cluster-ca' | 'kubernetes-ca'): Promise<KeyCertificateSigner> {
    const [caPem, keyPem] = [await this.#read(`${name}.crt`), await this.#read(`${name}.key`)];
    return new KeyCertificateSigner({ caPem: caPem.reveal(), keyPem, nowMs: this.#nowMs });
  }

  /** Throws `signer-key-missing`, and `keyset-invalid`. */
  async kubernetesClients(): Promise<KubernetesClientsCa> {
    const rotation = await this.#rotation();
    if (rotation === undefined)
      return { signer: await this.certificateAuthority('kubernetes-ca'), trustedPem: undefined };
    const set = parseKeySet(`${this.#directory}/${ROTATION_KEY}`, rotation);
    const { public: caPem, private: keyPem } = signingPair(set, 'kubernetes-clients-ca');
    return {
      signer: new KeyCertificateSigner({ caPem, keyPem, nowMs: this.#nowMs }),
      trustedPem: trustedPem(set, 'kubernetes-clients-ca'),
    };
  }

  /** All of them as one JSON object, name to text. Throws `signer-key-missing` unless every one is there. */
  async controlPlaneKeys(): Promise<Secret<Uint8Array>> {
    const entries: [string, string][] = [];
    for (const name of CONTROL_PLANE_KEYS) entries.push([name, (await this.#read(name)).reveal()]);
    const rotation = await this.#rotation();
    if (rotation !== undefined) entries.push([ROTATION_KEY, rotation]);
    return new Secret(new Uint8Array(Buffer.from(JSON.stringify(Object.fromEntries(entries)), 'utf8')));
  }

  async #rotation(): Promise<string | undefined> {
    const bytes = await this.#files.read(`${this.#directory}/${ROTATION_KEY}`, MAX_BYTES);
    return bytes === undefined ? undefined : Buffer.from(bytes).toString('utf8');
  }

  async #read(name: KeyName): Promise<Secret<string>> {
    const path = `${this.#directory}/${name}`;
    const bytes = await this.#files.read(path, MAX_BYTES);
    if (bytes === undefined) throw new SignerError('signer-key-missing', `reading ${path}: it is not there`);
    return new Secret(Buffer.from(bytes).toString('utf8'));
  }
}
