import { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { decryptWithTpm, type Challenge } from '../../internal/attestation/enrolment/index.ts';
import { parseManifest } from '../../internal/bundle/index.ts';
import { unseal } from '../../internal/crypto/index.ts';
import { DNS_LABEL } from '../../internal/endpoint/index.ts';
import { proofFromProvisioning, type DocumentProof } from '../../internal/ownerdocument/index.ts';
import { MAX_PEM_BYTES, NODE_ID, spkiDerOf, verifyNodeCertificate } from '../../internal/pki/index.ts';
import {
  isControlPlane,
  isTaintEffect,
  parseRoles,
  whyTaintsInvalid,
  type Role,
  type Taint,
} from '../../internal/role/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { records, SETTINGS_KEY, type SettingsRecord } from '../../internal/records/index.ts';
import type { Ticket } from '../../joinservice/joinproto/gen/join_pb.js';
import { JoinClientError } from './errors.ts';
import type { TicketKeyRing } from './ticket-keys.ts';
import type { VerifiedCluster } from './verify-cluster.ts';
import { verifySettings } from './verify-settings.ts';

const MAX_SETTINGS_BYTES = 2 * 1024 * 1024;
const MAX_CONTROL_PLANES = 64;
const MAX_KEY_BYTES = 64 * 1024;

/**
 * A verified ticket: certificates for the keys of this machine, and everything that its roles need. The
 * machine uses a ticket only if all of it is valid.
 */
export interface OpenedTicket {
  readonly clusterId: string;
  readonly clusterName: string;
  readonly clusterCaPem: string;
  readonly epoch: number;
  readonly nodeId: string;
  readonly nodeName: string;
  readonly nodeCertPem: string;
  readonly roles: readonly Role[];
  /** Taints with which the kubelet registers its node. */
  readonly taints: readonly Taint[];
  readonly directory: readonly { readonly nodeId: string; readonly host: string }[];
  readonly settings: Omit<SettingsRecord, 'version'>;
  /** CAs with which the kubelet verifies API servers, concatenated. */
  readonly kubernetesCaPem: string;
  /** CAs that the kubelet trusts for its clients, concatenated; undefined: the Kubernetes CA. */
  readonly kubernetesClientsCaPem: string | undefined;
  readonly kubeletClientCertPem: string;
  readonly kubeletServingCertPem: string;
  /**
   * Shared keys by their file names in the contract; only for control planes. Optional keys may be missing.
   */
  readonly controlPlaneKeys: ReadonlyMap<string, Secret<string>> | undefined;
  /**
   * The signature of an owner over the shared keys, or the proof that no owner has signed them. The machine verifies
   * rotated keys, and CAs for clients of the kubelet, with it before it installs them.
   */
  readonly signedKeys: DocumentProof<'keys'>;
}

/** The values of the request against which the ticket is verified. */
export interface TicketExpectations {
  readonly cluster: VerifiedCluster;
  readonly nodeId: string;
  readonly pubKeyDer: Uint8Array;
  readonly keys: TicketKeyRing;
  /** Raw Ed25519 keys that this machine was provisioned with. */
  readonly ownerKeys: readonly [Uint8Array, ...Uint8Array[]];
  /**
   * Whether the machine will use the settings in the ticket. A joining machine does; a member keeps its present
   * settings.
   */
  readonly usesSettings: boolean;
  /** Whether the machine requested the keys of a control plane. */
  readonly wantsControlPlaneKeys: boolean;
  /** The 64 bytes that identify the session of the request. */
  readonly session: Uint8Array;
  /** Answers a challenge with the TPM of this machine. */
  readonly answerChallenge: (challenge: Challenge, session: Uint8Array) => Promise<Uint8Array>;
  /** The names of the keys that control planes share. */
  readonly keyNames: readonly string[];
  /** Names of shared keys that not every cluster has. */
  readonly optionalKeyNames: readonly string[];
  readonly nowMs: () => number;
}

/**
 * Verifies a ticket: sizes, then formats, then signatures and names.
 * @throws JoinClientError `joinclient-ticket-invalid`, `joinclient-settings-unsigned`
 */
export async function openTicket(ticket: Ticket, expected: TicketExpectations): Promise<OpenedTicket> {
  const { cluster, nodeId, wantsControlPlaneKeys: asksForKeys } = expected;
  checkSizes(ticket);
  // The owner has signed the CA of the session, so a ticket must not replace it.
  if (ticket.clusterId !== cluster.clusterId || ticket.clusterCaPem !== cluster.ownedCaPem)
    throw invalid('issued by another cluster');
  if (ticket.nodeId !== nodeId) throw invalid(`issued for ${JSON.stringify(ticket.nodeId.slice(0, 64))}`);
  if (!DNS_LABEL.test(ticket.nodeName)) throw invalid('invalid node name');
  if (expected.usesSettings) checkSettings(ticket, expected);
  checkNodeCertificate(ticket, expected);
  checkKubeletCertificates(ticket, expected);
  const roles = attempt('roles', () => parseRoles(ticket.roles));
  const { clusterId, clusterName, nodeName, kubernetesCaPem } = ticket;
  const { clusterCaPem } = cluster;
  return {
    ...{ clusterId, clusterName, clusterCaPem, epoch: cluster.epoch, nodeId, nodeName, roles },
    taints: taintsOf(ticket),
    nodeCertPem: ticket.nodeCertificatePem,
    directory: directoryOf(ticket),
    settings: settingsOf(ticket),
    kubernetesCaPem,
    kubernetesClientsCaPem: ticket.kubernetesClientsCaPem === '' ? undefined : ticket.kubernetesClientsCaPem,
    kubeletClientCertPem: ticket.kubeletClientCertificatePem,
    kubeletServingCertPem: ticket.kubeletServingCertificatePem,
    // If the role was assigned after the request, the next ticket brings the shared keys.
    controlPlaneKeys: isControlPlane(roles) && asksForKeys ? await openKeys(ticket, expected) : undefined,
    signedKeys: signedKeysOf(ticket, expected),
  };
}

function checkSizes(ticket: Ticket): void {
  const { settings, controlPlanes, controlPlaneKeys, kubernetesClientsCaPem } = ticket;
  const pems = [
    ticket.clusterCaPem,
    ticket.nodeCertificatePem,
    ticket.kubernetesCaPem,
    ticket.kubeletClientCertificatePem,
    ticket.kubeletServingCertificatePem,
  ];
  const isSized =
    pems.every(({ length }) => length > 0 && length <= MAX_PEM_BYTES) &&
    kubernetesClientsCaPem.length <= 2 * MAX_PEM_BYTES &&
    settings.length <= MAX_SETTINGS_BYTES &&
    controlPlanes.length > 0 &&
    controlPlanes.length <= MAX_CONTROL_PLANES &&
    (controlPlaneKeys?.ciphertext.length ?? 0) <= MAX_SETTINGS_BYTES;
  if (!isSized) throw invalid('a field has an invalid size');
}

function checkSettings(
  { settings, ownerDocuments }: Ticket,
  { cluster, ownerKeys, nowMs }: TicketExpectations,
): void {
  const { clusterId, epoch } = cluster;
  verifySettings(settings, ownerDocuments, { ownerKeys, clusterId, epoch, nowMs: nowMs() });
}

function signedKeysOf(
  { ownerDocuments, keyDocuments }: Ticket,
  { cluster, ownerKeys, nowMs }: TicketExpectations,
): OpenedTicket['signedKeys'] {
  const { clusterId, epoch } = cluster;
  const trust = { ownerKeys, clusterId, epoch, nowMs: nowMs() };
  return proofFromProvisioning('keys', [...ownerDocuments, ...keyDocuments], trust);
}

function checkNodeCertificate(
  ticket: Ticket,
  { nodeId, pubKeyDer, cluster, nowMs }: TicketExpectations,
): void {
  attempt('node certificate', () => {
    const certificate = new X509Certificate(ticket.nodeCertificatePem);
    const { clusterId, clusterCaPem } = cluster;
    const member = verifyNodeCertificate(certificate, { caPem: clusterCaPem, clusterId, nowMs });
    if (member.nodeId !== nodeId || !hasKey(certificate, pubKeyDer)) throw new Error('for another key');
  });
}

function checkKubeletCertificates(ticket: Ticket, { keys }: TicketExpectations): void {
  const servers = attempt('Kubernetes CA', () => authoritiesIn(ticket.kubernetesCaPem));
  const clients = attempt('CAs of Kubernetes clients', () => clientAuthoritiesOf(ticket));
  const { kubeletClientCertificatePem: client, kubeletServingCertificatePem: serving } = ticket;
  const wanted = [
    ['kubelet client certificate', client, keys.clientPubKeyDer, clients],
    ['kubelet serving certificate', serving, keys.servingPubKeyDer, servers],
  ] as const;
  for (const [what, pem, pubKeyDer, authorities] of wanted) {
    attempt(what, () => {
      const certificate = new X509Certificate(pem);
      if (!authorities.some(({ publicKey }) => certificate.verify(publicKey)))
        throw new Error('signed by another CA');
      if (!hasKey(certificate, pubKeyDer)) throw new Error('for another key');
      if (!certificate.subject.split('\n').includes(`CN=system:node:${ticket.nodeName}`))
        throw new Error('for another node');
    });
  }
}

/** The client CAs of Kubernetes in the ticket: one, or two during a key rotation. */
function clientAuthoritiesOf({
  kubernetesCaPem,
  kubernetesClientsCaPem,
}: Ticket): readonly X509Certificate[] {
  return authoritiesIn(kubernetesClientsCaPem === '' ? kubernetesCaPem : kubernetesClientsCaPem);
}

function authoritiesIn(bundlePem: string): readonly X509Certificate[] {
  const pems = bundlePem.split(/(?<=-----END CERTIFICATE-----)/).filter((pem) => pem.trim() !== '');
  return pems.map((pem) => {
    const certificate = new X509Certificate(pem);
    if (!certificate.ca) throw new Error('not a CA certificate');
    return certificate;
  });
}

function hasKey(certificate: X509Certificate, pubKeyDer: Uint8Array): boolean {
  return Buffer.compare(spkiDerOf(certificate.publicKey), pubKeyDer) === 0;
}

function directoryOf({ controlPlanes }: Ticket): OpenedTicket['directory'] {
  return controlPlanes.map(({ nodeId, address }) => {
    if (!NODE_ID.test(nodeId) || isIP(address) === 0) throw invalid('invalid list of control planes');
    return { nodeId, host: address };
  });
}

/** The kubelet would not start with an invalid taint. */
function taintsOf({ taints }: Ticket): readonly Taint[] {
  const why = whyTaintsInvalid(taints);
  if (why !== undefined) throw invalid(`taints: ${why}`);
  return taints.flatMap(({ key, value, effect }) => (isTaintEffect(effect) ? [{ key, value, effect }] : []));
}

function settingsOf(ticket: Ticket): OpenedTicket['settings'] {
  return attempt('settings', () => {
    const { version: _, ...settings } = records.settings.decode(SETTINGS_KEY, ticket.settings);
    parseManifest(Buffer.from(settings.bundleManifest, 'utf8'));
    return settings;
  });
}

/** Opens all keys or throws: a control plane with only some of the keys would create the others. */
async function openKeys(
  ticket: Ticket,
  expected: TicketExpectations,
): Promise<ReadonlyMap<string, Secret<string>>> {
  const { keys, keyNames, optionalKeyNames, nodeId } = expected;
  const { controlPlaneKeys: sealed, clusterId } = ticket;
  const what = 'control plane keys';
  const open = async (): Promise<ReadonlyMap<string, unknown>> => {
    if (sealed === undefined) throw new Error('missing');
    const context = { kind: 'control-plane-keys', clusterId, nodeId } as const;
    const outer = objectIn(await unseal(sealed, keys.sealingKeyPem, context));
    return unboxed(outer, expected);
  };
  const found = await open().catch((error: unknown) => {
    throw invalid(what, error);
  });
  return attempt(what, () => {
    const names = [...keyNames, ...optionalKeyNames.filter((name) => found.has(name))];
    return new Map(
      names.map((name) => {
        const value = found.get(name);
        if (typeof value !== 'string' || value === '' || value.length > MAX_KEY_BYTES)
          throw new Error(`${name} is missing`);
        return [name, new Secret(value)] as const;
      }),
    );
  });
}

/** Decrypts the keys with the TPM if the cluster has encrypted them for this TPM. */
async function unboxed(
  outer: ReadonlyMap<string, unknown>,
  { session, answerChallenge: answer }: TicketExpectations,
): Promise<ReadonlyMap<string, unknown>> {
  const [challenge, nonce, ciphertext] = ['challenge', 'nonce', 'ciphertext'].map((name) => outer.get(name));
  if (typeof challenge !== 'string' || typeof nonce !== 'string' || typeof ciphertext !== 'string')
    return outer;
  return objectIn(await decryptWithTpm({ challenge, nonce, ciphertext }, session, answer));
}

function objectIn(text: Secret<Uint8Array>): ReadonlyMap<string, unknown> {
  const parsed: unknown = JSON.parse(Buffer.from(text.reveal()).toString('utf8'));
  if (typeof parsed !== 'object' || parsed === null) throw new Error('not a JSON object');
  return new Map(Object.entries(parsed as Record<string, unknown>));
}

function attempt<T>(what: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw invalid(what, error);
  }
}

function invalid(what: string, cause?: unknown): JoinClientError {
  return new JoinClientError('joinclient-ticket-invalid', `invalid ticket: ${what}`, { cause });
}
