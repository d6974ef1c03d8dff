import { createPrivateKey, hkdfSync, sign } from 'node:crypto';
import { lengthPrefixed } from '../../internal/crypto/index.ts';
import { readText, type FilePort } from '../../internal/file/index.ts';
import {
  DISK_SHARES_FILE,
  isReplaced,
  kubeletTrustPem,
  parseDiskSharesSecret,
  parseKeySet,
  publicHalvesOf,
  ROTATION_FILE,
  SERVERS_CA,
  serversTrustPem,
  signingPair,
  trustedClusterCas,
  trustedPem,
  type KeySet,
} from '../../internal/keyset/index.ts';
import { KeyCertificateSigner } from '../../internal/pki/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { SHARE_BYTES } from '../../internal/statedisk/index.ts';
import { SignerError } from './errors.ts';

const MAX_BYTES = 64 * 1024;

/**
 * The keys that only control planes have, by their names in the sealed keys of a ticket. The files in the key
 * directory have the same names.
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

type KeyName = (typeof CONTROL_PLANE_KEYS)[number];

const SHARE_LABEL = 'cluster/state-disk/cluster-share/v1';

/** The CA that signs for clients of Kubernetes, and the CAs that its servers trust. */
export interface KubernetesClientsCa {
  readonly signer: KeyCertificateSigner;
  /** PEM bundle; undefined while the Kubernetes CA signs for clients too. */
  readonly trustedPem: string | undefined;
}

/** The CA that signs for API servers and kubelets as servers, and the CAs that their clients trust. */
export interface KubernetesServersCa {
  readonly signer: KeyCertificateSigner;
  /** PEM bundle of the CAs that users trust. */
  readonly trustedPem: string;
  /**
   * PEM bundle of the CAs that kubelets trust. In a rotation, kubelets stop trusting the previous CA one phase
   * earlier than users.
   */
  readonly kubeletTrustedPem: string;
}

interface KeyRingOptions {
  readonly files: FilePort;
  readonly directory: string;
  readonly nowMs: () => number;
}

/** The keys of the cluster on this node. They are read from disk for each use and not kept in memory. */
export class KeyRing {
  readonly #options: KeyRingOptions;

  constructor(options: KeyRingOptions) {
    this.#options = options;
  }

  /** A CA as signer. @throws SignerError `signer-key-missing` */
  async certificateAuthority(name: 'cluster-ca' | 'kubernetes-ca'): Promise<KeyCertificateSigner> {
    const [caPem, keyPem] = [await this.#read(`${name}.crt`), await this.#read(`${name}.key`)];
    return new KeyCertificateSigner({ caPem: caPem.reveal(), keyPem, nowMs: this.#options.nowMs });
  }

  /** The cluster CAs that members trust, a PEM bundle. @throws SignerError `signer-key-missing`; KeysetError `keyset-invalid` */
  async trustedClusterCas(): Promise<string> {
    const set = await this.#keySet();
    const rotated = set && trustedClusterCas(set.phase, publicHalvesOf(set));
    return rotated ?? (await this.certificateAuthority('cluster-ca')).caPem;
  }

  /** The CA for clients of Kubernetes. @throws SignerError `signer-key-missing`; KeysetError `keyset-invalid` */
  async kubernetesClients(): Promise<KubernetesClientsCa> {
    const set = await this.#keySet();
    if (set === undefined)
      return { signer: await this.certificateAuthority('kubernetes-ca'), trustedPem: undefined };
    const { public: caPem, private: keyPem } = signingPair(set, 'kubernetes-clients-ca');
    return {
      signer: new KeyCertificateSigner({ caPem, keyPem, nowMs: this.#options.nowMs }),
      trustedPem: trustedPem(set, 'kubernetes-clients-ca'),
    };
  }

  /** The CA for servers of Kubernetes. @throws SignerError `signer-key-missing`; KeysetError `keyset-invalid` */
  async kubernetesServers(): Promise<KubernetesServersCa> {
    const set = await this.#keySet();
    if (set === undefined || !isReplaced(set, SERVERS_CA)) {
      const signer = await this.certificateAuthority('kubernetes-ca');
      return { signer, trustedPem: signer.caPem, kubeletTrustedPem: signer.caPem };
    }
    const { public: caPem, private: keyPem, cross: crossPem } = signingPair(set, SERVERS_CA);
    const cas = { previous: set.previous[SERVERS_CA].public, next: set.next[SERVERS_CA].public };
    return {
      signer: new KeyCertificateSigner({ caPem, keyPem, crossPem, nowMs: this.#options.nowMs }),
      trustedPem: serversTrustPem(set.phase, cas),
      kubeletTrustedPem: kubeletTrustPem(set.phase, cas),
    };
  }

  /** All keys as one JSON object, name to text. @throws SignerError `signer-key-missing` if one is missing */
  async controlPlaneKeys(): Promise<Secret<Uint8Array>> {
    const entries: [string, string][] = [];
    for (const name of CONTROL_PLANE_KEYS) entries.push([name, (await this.#read(name)).reveal()]);
    for (const name of [ROTATION_FILE, DISK_SHARES_FILE] as const) {
      const text = await this.#optional(name);
      if (text !== undefined) entries.push([name, text]);
    }
    return new Secret(new Uint8Array(Buffer.from(JSON.stringify(Object.fromEntries(entries)), 'utf8')));
  }

  /**
   * The cluster share of one disk of one machine: HKDF-SHA-256 (RFC 5869) of the secret, with both names in its info, so that no share says
   * anything about another one.
   * @throws SignerError `signer-share-unavailable`, `signer-share-malformed`
   */
  async diskShare({
    identity,
    uuid,
  }: {
    readonly identity: string;
    readonly uuid: string;
  }): Promise<Secret<Uint8Array>> {
    const text = await this.#optional(DISK_SHARES_FILE);
    if (text === undefined)
      throw new SignerError('signer-share-unavailable', `reading ${DISK_SHARES_FILE}: not found`);
    const secret = parseDiskSharesSecret(new Secret(text))?.reveal();
    if (secret === undefined)
      throw new SignerError(
        'signer-share-malformed',
        `reading ${DISK_SHARES_FILE}: not 64 hexadecimal digits`,
      );
    const info = lengthPrefixed(SHARE_LABEL, identity, uuid);
    return new Secret(new Uint8Array(hkdfSync('sha256', secret, new Uint8Array(), info, SHARE_BYTES)));
  }

  /** Signs a statement with the key of the cluster CA: ECDSA with SHA-256, r and s. @throws SignerError `signer-key-missing` */
  async signAsClusterCa(statement: Uint8Array): Promise<Uint8Array> {
    const key = createPrivateKey((await this.#read('cluster-ca.key')).reveal());
    return new Uint8Array(sign('sha256', statement, { key, dsaEncoding: 'ieee-p1363' }));
  }

  /** The keys of a rotation; undefined before the first one. @throws KeysetError `keyset-invalid` */
  async #keySet(): Promise<KeySet | undefined> {
    const rotation = await this.#optional(ROTATION_FILE);
    return rotation === undefined
      ? undefined
      : parseKeySet(`${this.#options.directory}/${ROTATION_FILE}`, rotation);
  }

  async #optional(name: typeof ROTATION_FILE | typeof DISK_SHARES_FILE): Promise<string | undefined> {
    return readText(this.#options.files, `${this.#options.directory}/${name}`, MAX_BYTES);
  }

  async #read(name: KeyName): Promise<Secret<string>> {
    const path = `${this.#options.directory}/${name}`;
    const text = await readText(this.#options.files, path, MAX_BYTES);
    if (text === undefined) throw new SignerError('signer-key-missing', `file ${path} not found`);
    return new Secret(text);
  }
}
