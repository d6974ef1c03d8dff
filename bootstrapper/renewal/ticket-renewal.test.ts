import { describe, expect, test } from '@jest/globals';
import { X509Certificate } from 'node:crypto';
import { DEFAULT_CERTIFICATES } from '../../internal/config/index.ts';
import { untilAborted } from '../../internal/cleanup/index.ts';
import { currentValue, EventValue } from '../../internal/event/index.ts';
import {
  createCaCertPem,
  generateKeyPem,
  KeyCertificateSigner,
  nodeLeaf,
  pubKeyDerOf,
  renewalTimeOf,
} from '../../internal/pki/index.ts';
import type { Role } from '../../internal/role/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { createMemoryLogger } from '../../internal/testing/memory-logger.ts';
import { createPairs, DISK_SHARES_FILE, publicKeysOf, signedKeysOf } from '../../internal/keyset/index.ts';
import { proofFromProvisioning } from '../../internal/ownerdocument/index.ts';
import { TestOwner } from '../../internal/testing/cluster/test-owner.ts';
import { FakeClock, settle } from '../../internal/testing/fake-clock.ts';
import { MemoryFiles } from '../../internal/testing/host/memory-files.ts';
import type { ClusterDirectory } from '../curatorclient/index.ts';
import { createMembershipUpdates } from '../credentials/index.ts';
import type { Membership } from '../membership/index.ts';
import type { JoinClient, OpenedTicket } from '../joinclient/index.ts';
import { CONTROL_PLANE_KEY_FILES, KUBELET_FILES, PATHS, placeKubernetesKeys } from '../kubernetes/index.ts';
import type { RoleSet } from '../roleserve/index.ts';
import { AGENT_PATHS, createNodeState } from '../nodestate/index.ts';
import { ensureValidCertificates, ticketRenewal } from './ticket-renewal.ts';

type RejoinMember = Parameters<JoinClient['rejoin']>[0];

const never = new AbortController().signal;
const DAY_MS = 24 * 3600 * 1000;
const clusterId = 'a'.repeat(32);
/** The control planes in the membership. */
const FIRST = [{ nodeId: 'node-1', endpoint: '198.18.0.11:9090' }];

/** The disk of a member, with certificates of real CAs that were all issued on one day. */
async function createMember(options: {
  readonly roles: readonly Role[];
  readonly hasCa: boolean;
  readonly isNamed?: boolean;
}) {
  const files = new MemoryFiles();
  const state = createNodeState(files);
  const time = { nowMs: Date.UTC(2026, 0, 1) };
  const nowMs = () => time.nowMs;
  const caKey = generateKeyPem();
  const caPem = await createCaCertPem({ commonName: 'cluster', keyPem: caKey, nowMs: nowMs() });
  const signer = new KeyCertificateSigner({ caPem, keyPem: caKey, nowMs });
  const pubKeyDer = pubKeyDerOf(generateKeyPem());
  const membership: Membership = {
    clusterId,
    clusterName: 'blue',
    nodeId: 'node-2',
    nodeName: 'n2',
    nodeAddress: '198.18.0.12',
    nodeCertPem: await signer.issue(
      nodeLeaf({
        ...{ clusterId, pubKeyDer, addresses: ['198.18.0.12'] },
        isControlPlane: options.isNamed ?? true,
      }),
    ),
    clusterCaPem: caPem,
    epoch: 1,
    directory: [{ nodeId: 'node-1', host: '198.18.0.11' }],
  };
  const directories = [AGENT_PATHS.ca, PATHS.pki, '/var/lib/cluster/kubernetes'];
  for (const directory of directories) await files.makeDirectory(directory);
  for (const path of [KUBELET_FILES.clientKey, KUBELET_FILES.servingKey])
    await files.writeAtomic(path, generateKeyPem().reveal());
  if (options.hasCa)
    for (const base of [`${AGENT_PATHS.ca}/ca`, `${PATHS.pki}/ca`]) {
      await files.writeAtomic(`${base}.crt`, caPem);
      await files.writeAtomic(`${base}.key`, caKey.reveal());
    }
  const values = {
    clusterMembership: new EventValue<Membership | undefined>(),
    clusterDirectory: new EventValue<ClusterDirectory | undefined>(),
    clusterRelays: new EventValue<readonly string[] | undefined>(),
    localRoles: new EventValue<RoleSet | undefined>(),
  };
  values.clusterMembership.set(membership);
  values.clusterDirectory.set(undefined);
  values.clusterRelays.set(undefined);
  values.localRoles.set(new Set(options.roles));
  const asked: unknown[] = [];
  const renewed: Membership[] = [];
  const joinClient = {
    rejoin: async (member: unknown): Promise<OpenedTicket> => {
      asked.push(member);
      return ticketFrom(membership, 'new');
    },
  };
  const ports = {
    ...{ files, state, reads: values, joinClient, nowMs, log: createMemoryLogger().log },
    clock: new FakeClock(),
    machine: { pubKeyDer },
    lifetimes: () => DEFAULT_CERTIFICATES,
    ownAddress: () => '198.18.0.12',
    isCreatingCluster: () => false,
    onRenewed: (now: Membership) => Promise.resolve(void renewed.push(now)),
    needsTicket: new EventValue<boolean>(),
    updateMembership: createMembershipUpdates({
      ...{ files, state, reads: values },
      publish: (now) => values.clusterMembership.set(now),
    }),
  };
  return { ports, time, membership, asked, renewed, files, state };
}

function ticketFrom(membership: Membership, nodeCertPem: string): OpenedTicket {
  const { clusterName, clusterCaPem, epoch, nodeId, nodeName, directory } = membership;
  return {
    ...{ clusterId, clusterName, clusterCaPem, epoch, nodeId, nodeName, directory, nodeCertPem },
    taints: [],
    roles: ['KubernetesWorker'],
    settings: {
      clusterName,
      kubernetesVersion: 'v1.35.4',
      podSubnet: 'p',
      serviceSubnet: 's',
      apiServerSans: [],
      bundleManifest: '',
    },
    kubernetesCaPem: 'ca',
    kubernetesClientsCaPem: undefined,
    kubeletClientCertPem: 'client',
    kubeletServingCertPem: 'serving',
    controlPlaneKeys: undefined,
    signedKeys: { kind: 'unsigned', why: 'never rotated' },
  };
}

describe('a member that comes back', () => {
  test('with valid certificates requests no ticket', async () => {
    const { ports, membership, asked } = await createMember({ roles: ['KubernetesWorker'], hasCa: false });
    expect(await ensureValidCertificates(ports, membership, never)).toBe(membership);
    expect(asked).toEqual([]);
  });

  test('a worker whose certificate expired requests a new ticket with the same key, and saves it', async () => {
    const { ports, membership, asked, time, state } = await createMember({
      roles: ['KubernetesWorker'],
      hasCa: false,
    });
    time.nowMs += 30 * DAY_MS;
    const renewed = await ensureValidCertificates(ports, membership, never);
    const asMember = { roles: ['KubernetesWorker'], nodeCertPem: membership.nodeCertPem };
    expect(asked).toEqual([{ clusterId, controlPlanes: FIRST, relays: [], ...asMember }]);
    expect(renewed).toEqual({ ...membership, nodeCertPem: 'new' });
    expect(await state.membership.load()).toEqual(renewed);
  });

  test('calls the control planes in the last saved directory, then relays, and saves the directory in the new ticket', async () => {
    const { ports, membership, asked, time, state } = await createMember({
      roles: ['KubernetesWorker'],
      hasCa: false,
    });
    time.nowMs += 30 * DAY_MS;
    const told = { nodeId: 'node-7', host: '2001:db8::7', curator: true, apiServer: true };
    await state.directory.save([told]);
    await state.relays.save(['198.18.0.12', '198.18.0.13']);
    await ensureValidCertificates(ports, membership, never);
    const relays = ['198.18.0.13:9094']; // this node's own relay is left out
    const controlPlanes = [{ nodeId: 'node-7', endpoint: '[2001:db8::7]:9090' }];
    const asMember = { roles: ['KubernetesWorker'], nodeCertPem: membership.nodeCertPem };
    expect(asked).toEqual([{ clusterId, controlPlanes, relays, ...asMember }]);
    expect((await state.directory.load())?.map(({ host }) => host)).toEqual(['198.18.0.11']);
    for (const path of [AGENT_PATHS.directory, AGENT_PATHS.relays])
      await ports.files.writeAtomic(path, 'torn');
    await ensureValidCertificates(ports, membership, never);
    expect(asked[1]).toEqual({ clusterId, controlPlanes: FIRST, relays: [], ...asMember });
  });

  test('keeps the CAs for clients of its kubelet if no owner has signed those in the ticket', async () => {
    const { ports, membership, time, files } = await createMember({
      roles: ['KubernetesWorker'],
      hasCa: false,
    });
    time.nowMs += 30 * DAY_MS;
    const path = '/var/lib/cluster/kubernetes/clients-ca.crt';
    await files.writeAtomic(path, 'before');
    const keys = publicKeysOf({
      ...{ generation: 2, phase: 'done' },
      ...{ previous: await createPairs(1, 1), next: await createPairs(2, 1) },
    });
    const kubernetesClientsCaPem = keys.next['kubernetes-clients-ca'];
    const renew = async (signedKeys: OpenedTicket['signedKeys']): Promise<string> => {
      const ticket = { ...ticketFrom(membership, 'new'), kubernetesClientsCaPem, signedKeys };
      const joinClient = { rejoin: () => Promise.resolve(ticket) };
      expect((await ensureValidCertificates({ ...ports, joinClient }, membership, never)).nodeCertPem).toBe(
        'new',
      );
      return Buffer.from((await files.read(path, 4096)) ?? []).toString('utf8');
    };
    expect(await renew({ kind: 'unsigned', why: 'no owner has signed such a document' })).toBe('before');
    const owner = new TestOwner({ clock: { nowMs: () => time.nowMs }, clusterId });
    const trust = { ownerKeys: [owner.pubKey], clusterId, epoch: 1, nowMs: time.nowMs } as const;
    const signed = owner.sign('keys', { ...signedKeysOf(keys) });
    expect(await renew(proofFromProvisioning('keys', [signed], trust))).toBe(kubernetesClientsCaPem);
  });

  test('refuses a ticket with another Kubernetes CA, because its kubelet would trust the owner of that CA', async () => {
    const { ports, membership, time, state } = await createMember({
      roles: ['KubernetesWorker'],
      hasCa: false,
    });
    time.nowMs += 30 * DAY_MS;
    await ports.files.writeAtomic(KUBELET_FILES.ca, 'of the cluster\n');
    await expect(ensureValidCertificates(ports, membership, never)).rejects.toMatchObject({
      code: 'keyrotation-keys-unsigned',
    });
    expect(await state.membership.load()).toBeUndefined();
    expect(Buffer.from((await ports.files.read(KUBELET_FILES.ca, 99)) ?? []).toString()).toBe(
      'of the cluster\n',
    );
  });

  test('a control plane whose certificates expired issues its own, because all control planes may have been off', async () => {
    const { ports, membership, asked, time, files } = await createMember({
      roles: ['ConsensusMember'],
      hasCa: true,
    });
    time.nowMs += 400 * DAY_MS;
    const { nodeCertPem } = await ensureValidCertificates(ports, membership, never);
    expect(asked).toEqual([]);
    const certificate = new X509Certificate(nodeCertPem);
    expect(Date.parse(certificate.validTo)).toBe(time.nowMs + 7 * DAY_MS);
    const before = new X509Certificate(membership.nodeCertPem);
    expect(certificate.publicKey.equals(before.publicKey)).toBe(true);
    const kubelet = Buffer.from((await files.read(KUBELET_FILES.clientCert, 1e6)) ?? []).toString('utf8');
    expect(new X509Certificate(kubelet).subject).toBe(
      'CN=system:node:n2\nO=system:nodes\n1.3.6.1.4.1.57683.2=node-2',
    );
  });

  test('a control plane issues the client certificate of its kubelet from the separate client CA, if one exists', async () => {
    const { ports, membership, time, files } = await createMember({
      roles: ['ConsensusMember'],
      hasCa: true,
    });
    const [previous, next] = [await createPairs(1, time.nowMs), await createPairs(2, time.nowMs)];
    await placeKubernetesKeys(files, { generation: 2, phase: 'retire', previous, next });
    time.nowMs += 400 * DAY_MS;
    await ensureValidCertificates(ports, membership, never);
    const issuers = [KUBELET_FILES.clientCert, KUBELET_FILES.servingCert].map(async (path) => {
      const pem = Buffer.from((await files.read(path, 1e6)) ?? []).toString('utf8');
      return new X509Certificate(pem).issuer;
    });
    expect(await Promise.all(issuers)).toEqual(['CN=kubernetes clients 2', 'CN=cluster']);
  });
});

describe('ticketRenewal()', () => {
  test('is due at two thirds of the shortest validity', async () => {
    const { ports, time } = await createMember({ roles: ['KubernetesWorker'], hasCa: false });
    const times = await ticketRenewal(ports).certificateTimes(never);
    expect(times.map((each) => (renewalTimeOf(each) - time.nowMs) / DAY_MS)).toEqual([14 / 3]);
  });

  test('is due at once on a node with a control-plane role and without its keys', async () => {
    const { ports, files } = await createMember({ roles: ['ConsensusMember'], hasCa: false });
    expect(
      (await ticketRenewal(ports).certificateTimes(never)).some(({ notAfterMs }) => notAfterMs === 0),
    ).toBe(true);
    for (const path of [...Object.values(CONTROL_PLANE_KEY_FILES), AGENT_PATHS.diskShares]) {
      await files.makeDirectory(path.slice(0, path.lastIndexOf('/')));
      await files.writeAtomic(path, path === AGENT_PATHS.diskShares ? '5e'.repeat(32) : 'key');
    }
    expect(
      (await ticketRenewal(ports).certificateTimes(never)).some(({ notAfterMs }) => notAfterMs === 0),
    ).toBe(false);
  });

  test('is due once per run on a control plane whose certificate does not name that role', async () => {
    const { ports, files } = await createMember({ roles: ['ConsensusMember'], hasCa: false, isNamed: false });
    for (const path of [...Object.values(CONTROL_PLANE_KEY_FILES), AGENT_PATHS.diskShares]) {
      await files.makeDirectory(path.slice(0, path.lastIndexOf('/')));
      await files.writeAtomic(path, path === AGENT_PATHS.diskShares ? '5e'.repeat(32) : 'key');
    }
    const renewal = ticketRenewal(ports);
    const isDue = async (): Promise<boolean> =>
      (await renewal.certificateTimes(never)).some(({ notAfterMs }) => notAfterMs === 0);
    expect(await isDue()).toBe(true);
    await renewal.prepare(never);
    expect(await isDue()).toBe(false);
  });

  describe('on a control plane and the secret for disk shares', () => {
    const [first, other] = ['5e'.repeat(32), 'a5'.repeat(32)];
    /** A control plane with all other keys. `has`: its secret; `gets`: that of the control plane that answers. */
    const secretAfter = async (has: string | undefined, gets: string | undefined) => {
      const { ports, files, membership, asked } = await createMember({
        roles: ['ConsensusMember'],
        hasCa: false,
      });
      const paths = [...Object.values(CONTROL_PLANE_KEY_FILES), AGENT_PATHS.diskShares];
      for (const path of paths) {
        await files.makeDirectory(path.slice(0, path.lastIndexOf('/')));
        if (path !== AGENT_PATHS.diskShares) await files.writeAtomic(path, 'key');
        else if (has !== undefined) await files.writeAtomic(path, has);
      }
      const controlPlaneKeys = new Map([
        ...Object.keys(CONTROL_PLANE_KEY_FILES).map((name) => [name, new Secret('key')] as const),
        ...(gets === undefined ? [] : [[DISK_SHARES_FILE, new Secret(gets)] as const]),
      ]);
      const joinClient = {
        rejoin: (member: unknown) => {
          asked.push(member);
          return Promise.resolve({ ...ticketFrom(membership, 'new'), controlPlaneKeys });
        },
      };
      const logs = createMemoryLogger();
      const own = { nodeId: 'node-2', host: '198.18.0.12', curator: true, apiServer: true };
      ports.reads.clusterDirectory.set([own, { ...own, nodeId: 'node-1', host: '198.18.0.11' }]);
      const renewal = ticketRenewal({ ...ports, joinClient, log: logs.log });
      const isDue = async (): Promise<boolean> =>
        (await renewal.certificateTimes(never)).some(({ notAfterMs }) => notAfterMs === 0);
      const wasDue = await isDue();
      const apply = await renewal.prepare(never);
      const isDueAgain = await isDue();
      await apply(never);
      const secret = Buffer.from((await files.read(AGENT_PATHS.diskShares, 100)) ?? []).toString();
      return { wasDue, isDue: isDueAgain, secret, problem: renewal.problem?.(), asked, logs };
    };

    test.each([
      { name: 'without it', has: undefined },
      { name: 'with a malformed one', has: 'short' },
    ])('gets it at once, from another control plane: $name', async ({ has }) => {
      const { wasDue, isDue, secret, problem, asked } = await secretAfter(has, first);
      expect({ wasDue, isDue, secret, problem }).toEqual({
        ...{ wasDue: true, isDue: false },
        ...{ secret: first, problem: undefined },
      });
      expect(asked).toEqual([expect.objectContaining({ controlPlanes: FIRST })]);
    });

    test('renews its certificates itself after ten minutes, if no other control plane answers', async () => {
      const { ports, membership } = await createMember({ roles: ['ConsensusMember'], hasCa: false });
      const own = { nodeId: 'node-2', host: '198.18.0.12', curator: true, apiServer: true };
      ports.reads.clusterDirectory.set([own, { ...own, nodeId: 'node-1', host: '198.18.0.11' }]);
      const asked: number[] = [];
      const rejoin = ({ controlPlanes }: RejoinMember, signal: AbortSignal): Promise<OpenedTicket> => {
        asked.push(controlPlanes.length);
        return controlPlanes.length === 2
          ? Promise.resolve(ticketFrom(membership, 'new'))
          : untilAborted(signal);
      };
      const clock = new FakeClock();
      const prepared = ticketRenewal({ ...ports, clock, joinClient: { rejoin } }).prepare(never);
      await settle();
      await clock.advance(10 * 60_000 - 1);
      await settle();
      expect(asked).toEqual([1]);
      await clock.advance(1);
      await prepared;
      expect(asked).toEqual([1, 2]);
      expect(clock.sleeping).toBe(0);
    });

    test('asks once per run in a cluster without one', async () => {
      expect(await secretAfter(undefined, undefined)).toMatchObject({
        wasDue: true,
        isDue: false,
        secret: '',
      });
    });

    test('keeps its own, and says in log and status that another control plane has another one', async () => {
      const { wasDue, secret, problem, logs } = await secretAfter(first, other);
      expect([wasDue, secret]).toEqual([false, first]);
      expect(problem).toContain('credentials-share-secret-other');
      expect(logs.records.filter(({ level }) => level === 'error')).toHaveLength(1);
      expect(await secretAfter(first, first)).toMatchObject({ problem: undefined });
    });
  });

  test('is due at once when every curator refuses this node because of its certificate', async () => {
    const { ports } = await createMember({ roles: ['KubernetesWorker'], hasCa: false });
    expect(ticketRenewal(ports).isDue).toBe(ports.needsTicket);
  });

  test('keeps a cluster CA that a rotation has installed since the ticket was requested', async () => {
    const { ports, state, membership } = await createMember({ roles: ['KubernetesWorker'], hasCa: false });
    const activate = await ticketRenewal(ports).prepare(never);
    await ports.updateMembership((now) => ({ ...now, clusterCaPem: 'NEXT' }));
    await activate(never);
    const wanted = { ...membership, clusterCaPem: 'NEXT', nodeCertPem: 'new' };
    expect(await state.membership.load()).toEqual(wanted);
  });

  test('replaces the cluster CA in the membership with the CA in the ticket', async () => {
    const { ports, state } = await createMember({ roles: ['KubernetesWorker'], hasCa: false });
    const { rejoin } = ports.joinClient;
    ports.joinClient.rejoin = async (member) => ({ ...(await rejoin(member)), clusterCaPem: 'PROVED' });
    await (
      await ticketRenewal(ports).prepare(never)
    )(never);
    expect(await state.membership.load()).toMatchObject({ clusterCaPem: 'PROVED' });
  });

  test('publishes the renewed membership after it is on disk', async () => {
    const { ports, renewed, state } = await createMember({ roles: ['KubernetesWorker'], hasCa: false });
    const before = await state.membership.load();
    const activate = await ticketRenewal(ports).prepare(never);
    expect(await state.membership.load()).toEqual(before); // nothing changes before `activate`
    await activate(never);
    const membership = await state.membership.load();
    expect(membership?.nodeCertPem).toBe('new');
    expect(currentValue(ports.reads.clusterMembership)).toEqual(membership);
    expect(renewed).toEqual([membership]);
  });
});
