import { X509Certificate } from 'node:crypto';
import { childSignal } from '../../internal/cleanup/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { CertificatesConfig } from '../../internal/config/index.ts';
import { formatEndpoint, PORTS } from '../../internal/endpoint/index.ts';
import { currentValue, type Readable } from '../../internal/event/index.ts';
import { describeError } from '../../internal/errors/index.ts';
import { readText, type FilePort } from '../../internal/file/index.ts';
import { DISK_SHARES_FILE } from '../../internal/keyset/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import {
  type CertificateTimes,
  certificateTimesOf,
  isControlPlaneCertificate,
} from '../../internal/pki/index.ts';
import { isControlPlane, type Role } from '../../internal/role/index.ts';
import { directoryFromMembership } from '../curatorclient/index.ts';
import type { Membership } from '../membership/index.ts';
import type { JoinClient, OpenedTicket } from '../joinclient/index.ts';
import { KeyRotationError } from '../keyrotation/index.ts';
import { CONTROL_PLANE_KEY_FILES, KUBELET_FILES } from '../kubernetes/index.ts';
import type { Renewal } from './renewal-worker.ts';
import type { RoleValues } from '../roleserve/index.ts';
import { hasExpired, renewFromLocalCa } from './renew-expired.ts';
import type { MachineIdentity, NodeState } from '../nodestate/index.ts';
import {
  installDiskSharesKey,
  installTicketKeys,
  installKubeletCertificates,
  installKubeletClientsCa,
  installKubeletServersCa,
  membershipFromTicket,
  readDiskSharesKey,
  verifyKubeletServersCa,
  writeCredentials,
  type UpdateMembership,
} from '../credentials/index.ts';

/** Validity of a certificate that is missing or cannot be read: it is due. */
const DUE: CertificateTimes = { issuedMs: 0, notAfterMs: 0 };

/** How long a control plane without the secret for disk shares waits for another one. */
const OTHERS_MS = 10 * 60_000;

/** Ports (injected dependencies) of a renewal by ticket. */
export interface TicketRenewalPorts {
  readonly files: FilePort;
  readonly state: NodeState;
  readonly reads: Pick<RoleValues, 'clusterMembership' | 'clusterDirectory' | 'clusterRelays' | 'localRoles'>;
  readonly joinClient: Pick<JoinClient, 'rejoin'>;
  readonly ownAddress: () => string;
  /** Whether this node is creating the cluster. If so, it creates the shared keys itself. */
  readonly isCreatingCluster: () => boolean;
  readonly updateMembership: UpdateMembership;
  /**
   * Whether the node needs a ticket at once: every curator refuses this node's certificate, or shows a certificate that
   * this node cannot verify.
   */
  readonly needsTicket: Readable<boolean>;
  /** Restarts the services that use the old certificate. */
  readonly onRenewed: (membership: Membership, signal: AbortSignal) => Promise<void>;
  readonly log: Logger;
  readonly clock: Pick<Clock, 'sleep'>;
}

/** Renews everything that a ticket contains, with fresh evidence, at any control plane including this node. */
export function ticketRenewal(ports: TicketRenewalPorts): Renewal {
  const { files, reads } = ports;
  // Whether this run of the agent has requested a certificate that names the control-plane role. The agent requests
  // such a certificate only once, because signers of older releases issue none.
  let hasAskedForName = false;
  // The same for the secret for disk shares, because clusters that an earlier release created have none.
  let hasAskedForSecret = false;
  let problem: string | undefined;
  return {
    name: 'node and kubelet',
    isDue: ports.needsTicket,
    problem: () => problem,
    certificateTimes: async () => {
      const membership = currentValue(reads.clusterMembership);
      if (membership === undefined) return [];
      const kubelet = await Promise.all(
        [KUBELET_FILES.clientCert, KUBELET_FILES.servingCert].map((path) => readText(files, path)),
      );
      const keys = (await lacksSharedKeys(ports)) ? [DUE] : [];
      const name = !hasAskedForName && lacksName(ports, membership) ? [DUE] : [];
      const secret = !hasAskedForSecret && (await lacksDiskSharesKey(ports)) ? [DUE] : [];
      // A node that creates its cluster has a membership before it has a Kubernetes CA.
      return [
        timesOf(membership.nodeCertPem),
        ...kubelet.filter((certPem) => certPem !== undefined).map(timesOf),
        ...keys,
        ...name,
        ...secret,
      ];
    },
    prepare: async (waiting) => {
      const membership = currentValue(reads.clusterMembership);
      if (membership === undefined) return () => Promise.resolve();
      const fromOthers = (await lacksDiskSharesKey(ports))
        ? await requestFromOthers(ports, membership, waiting)
        : undefined;
      const ticket = fromOthers ?? (await requestTicket(ports, membership, waiting));
      hasAskedForName = true;
      hasAskedForSecret = true;
      return async (signal) => {
        problem = await applyTicket(ports, { membership, ticket }, signal);
      };
    },
  };
}

/** @returns what is wrong with the secret for disk shares */
async function applyTicket(
  ports: TicketRenewalPorts,
  { membership, ticket }: { readonly membership: Membership; readonly ticket: OpenedTicket },
  signal: AbortSignal,
): Promise<string | undefined> {
  const { files, log } = ports;
  await installKubeletCertificates(files, ticket);
  const error = (await lacksSharedKeys(ports))
    ? await installTicketKeys(files, ticket)
    : await installDiskSharesKey(files, ticket.controlPlaneKeys?.get(DISK_SHARES_FILE));
  if (error !== undefined) log.error('secret for disk shares in the ticket not stored', { error });
  const renewed = await ports.updateMembership((now) => ({
    ...membershipFromTicket(ticket, membership.nodeAddress),
    // A rotation may have replaced the CA since the ticket was requested.
    ...(now.clusterCaPem === membership.clusterCaPem ? {} : { clusterCaPem: now.clusterCaPem }),
  }));
  await ports.onRenewed(renewed, signal);
  return error === undefined ? undefined : `${error.code}: ${describeError(error)}`;
}

/**
 * Renews the certificates of a member before it resumes, if they have expired. A control plane signs them
 * itself with the cluster CA. Any other node requests a new ticket until it gets one.
 */
export async function ensureValidCertificates(
  ports: Pick<TicketRenewalPorts, 'files' | 'state' | 'reads' | 'joinClient'> & {
    readonly machine: Pick<MachineIdentity, 'pubKeyDer'>;
    readonly nowMs: () => number;
    readonly lifetimes: () => CertificatesConfig;
    readonly log: Logger;
  },
  membership: Membership,
  signal: AbortSignal,
): Promise<Membership> {
  const { files, state, machine, nowMs, lifetimes, log } = ports;
  if (!hasExpired(membership, nowMs())) return membership;
  log.warn('node certificate expired while the node was off, renewing', { nodeName: membership.nodeName });
  const renewed =
    (await renewFromLocalCa({ files, nowMs }, machine, { membership, lifetimes: lifetimes() })) ??
    (await byTicket(ports, membership, signal));
  await writeCredentials(files, renewed);
  await state.membership.save(renewed);
  return renewed;
}

async function byTicket(
  ports: Parameters<typeof ensureValidCertificates>[0],
  membership: Membership,
  signal: AbortSignal,
): Promise<Membership> {
  const ticket = await requestTicket(ports, membership, signal);
  await installKubeletServersCa(ports.files, ticket);
  await installKubeletCertificates(ports.files, ticket);
  await installSignedClientsCa(ports, ticket);
  // Saves the current control planes, because all those on disk may no longer exist.
  await saveDirectory(ports.state, ticket);
  return membershipFromTicket(ticket, membership.nodeAddress);
}

/**
 * Installs the CAs for clients of the kubelet if an owner has signed them. Otherwise the node keeps its present CAs,
 * and gets newer ones from a curator later.
 */
async function installSignedClientsCa(
  { files, log }: Parameters<typeof ensureValidCertificates>[0],
  ticket: OpenedTicket,
): Promise<void> {
  try {
    await installKubeletClientsCa(files, ticket);
  } catch (error) {
    if (!(error instanceof KeyRotationError)) throw error;
    log.warn('CAs of Kubernetes clients in the ticket refused, keeping the present ones', { error });
  }
}

async function saveDirectory(state: NodeState, { directory }: OpenedTicket): Promise<void> {
  const [first, ...more] = directoryFromMembership({ directory });
  if (first !== undefined) await state.directory.save([first, ...more]);
}

/**
 * Requests a ticket from another control plane, because the join service of this node would bring the keys of this node. Certificates must not
 * expire while the others are off, so that it gives up after a while.
 * @returns undefined if no other control plane has issued one
 */
async function requestFromOthers(
  ports: Pick<TicketRenewalPorts, 'files' | 'joinClient' | 'state' | 'reads' | 'clock' | 'log'>,
  membership: Membership,
  signal: AbortSignal,
): Promise<OpenedTicket | undefined> {
  using limit = childSignal(signal);
  void ports.clock
    .sleep(OTHERS_MS, limit.signal)
    .then(() => limit.abort(new Error('no other control plane has answered')))
    .catch(() => undefined); // the request has ended before
  try {
    return await requestTicket(ports, membership, limit.signal, membership.nodeId);
  } catch (error) {
    signal.throwIfAborted();
    ports.log.warn('no ticket with the secret for disk shares from another control plane', { error });
    return undefined;
  } finally {
    limit.abort(new Error('the request has ended'));
  }
}

/** Requests a new ticket for this member, if possible not from the control plane `without`. */
async function requestTicket(
  { files, joinClient, state, reads }: Pick<TicketRenewalPorts, 'files' | 'joinClient' | 'state' | 'reads'>,
  membership: Membership,
  signal: AbortSignal,
  without?: string,
): Promise<OpenedTicket> {
  // A resuming member has not published the saved records yet, so they are read from disk. A damaged record
  // is ignored.
  const told = currentValue(reads.clusterDirectory) ?? (await state.directory.load().catch(() => undefined));
  const relays = currentValue(reads.clusterRelays) ?? (await state.relays.load().catch(() => undefined));
  const roles = currentValue(reads.localRoles) ?? (await state.roles.load().catch(() => undefined)) ?? [];
  const { clusterId, nodeAddress, nodeCertPem } = membership;
  const known = told ?? membership.directory;
  const others = known.filter(({ nodeId }) => nodeId !== without);
  const ticket = await joinClient.rejoin(
    {
      clusterId,
      roles: [...roles],
      nodeCertPem,
      controlPlanes: (others.length === 0 ? known : others).map(({ nodeId, host }) => ({
        nodeId,
        endpoint: formatEndpoint(host, PORTS.join),
      })),
      // The relay on this node is left out, because it leads to the same control planes.
      relays: (relays ?? [])
        .filter((host) => host !== nodeAddress)
        .map((host) => formatEndpoint(host, PORTS.joinRelay)),
    },
    signal,
  );
  await verifyKubeletServersCa(files, ticket);
  return ticket;
}

/** Whether the shared keys are missing because this node became a control plane after its last ticket. */
async function lacksSharedKeys({ files, reads, isCreatingCluster }: TicketRenewalPorts): Promise<boolean> {
  const roles: readonly Role[] = [...(currentValue(reads.localRoles) ?? [])];
  if (!isControlPlane(roles) || isCreatingCluster()) return false;
  const stats = await Promise.all(Object.values(CONTROL_PLANE_KEY_FILES).map((path) => files.stat(path)));
  return stats.includes(undefined);
}

/** Whether this control plane has no usable secret for disk shares. Others may have one. */
async function lacksDiskSharesKey({ files, reads, isCreatingCluster }: TicketRenewalPorts): Promise<boolean> {
  if (!isControlPlane([...(currentValue(reads.localRoles) ?? [])]) || isCreatingCluster()) return false;
  return (await readDiskSharesKey(files)) === undefined;
}

/**
 * Whether the certificate of this control plane does not identify it as a control plane yet. Operators and members
 * require a certificate that does.
 */
function lacksName({ reads }: TicketRenewalPorts, { nodeCertPem }: Membership): boolean {
  if (!isControlPlane([...(currentValue(reads.localRoles) ?? [])])) return false;
  try {
    return !isControlPlaneCertificate(new X509Certificate(nodeCertPem));
  } catch {
    return false; // an invalid certificate is due anyway
  }
}

function timesOf(certPem: string): CertificateTimes {
  try {
    return certificateTimesOf(certPem);
  } catch {
    return DUE; // an invalid certificate is replaced
  }
}
