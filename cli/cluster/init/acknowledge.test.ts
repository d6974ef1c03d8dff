import { afterEach, describe, expect, test } from '@jest/globals';
import { createPublicKey, verify, type KeyObject } from 'node:crypto';
import { createServer, type AddressInfo } from 'node:net';
import { SystemClock } from '../../../internal/clock/index.ts';
import { ownershipStatement } from '../../../internal/crypto/index.ts';
import { generateKeyPem, nodeLeaf, operatorLeaf, pubKeyDerOf } from '../../../internal/pki/index.ts';
import { implement, RpcServer, tlsServerUpgrade } from '../../../internal/rpc/index.ts';
import {
  closeOpened,
  createMemoryLogger,
  opened,
  type MemoryFiles,
} from '../../../internal/testing/index.ts';
import {
  OperatorApi,
  type PutOwnershipRequest,
} from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import type { FakeNode } from './fake-node.ts';
import { contextOf, HastyClock, ROOT, start, stateOf } from './fake-workstation.ts';
import { createIdentity, saveGrant } from '../../workspace/index.ts';
import { runInit } from '../index.ts';
import { plainSecrets } from '../../workspace/fake-passphrases.ts';

const OTHER_CLUSTER = 'b'.repeat(32);

afterEach(closeOpened);

describe('acknowledgeInit() without a response', () => {
  test('succeeds if the cluster already has a record of its owner, and does not send the record again', async () => {
    const { files, node, options } = await start();
    const curator = await FakeCurator.start(node);
    node.onAcknowledged = async () => {
      curator.ownerPublicKey = new Uint8Array(32).fill(7);
      await closeFor(node);
    };
    await runInit(contextOf(files), options);
    expect(curator.told).toEqual([]);
    expect((await stateOf(files)).init?.stage).toBe('acknowledged');
  });

  test('writes the owner to the cluster if the machine never received the acknowledgement', async () => {
    const { files, node, options } = await start();
    const curator = await FakeCurator.start(node);
    node.onAcknowledged = () => closeFor(node);
    const context = contextOf(files);
    await runInit({ ...context, ports: { ...context.ports, clock: new FastClock() } }, options);
    const [told] = curator.told;
    const { result } = (await stateOf(files)).init ?? {};
    if (told === undefined || result === undefined) throw new Error('nothing was told');
    const statement = ownershipStatement({ ...result, epoch: BigInt(result.epoch) });
    expect(verify(undefined, statement, await ownerKeyOf(files), told.signature)).toBe(true);
    expect(curator.told).toHaveLength(1);
    expect((await stateOf(files)).init?.stage).toBe('acknowledged');
  });

  test.each([
    { name: 'no server', start: async (node: FakeNode) => (node.curatorEndpoint = await closedPort()) },
    { name: 'an untrusted peer', start: (node: FakeNode) => FakeCurator.start(node, OTHER_CLUSTER) },
  ])('calls the machine again if $name is at the address of the curator', async ({ start: startCurator }) => {
    const { files, node, options } = await start();
    await startCurator(node);
    let lost = 0;
    node.onAcknowledged = () => (lost++ === 0 ? closeFor(node, 'for now') : Promise.resolve());
    await runInit(contextOf(files), options);
    expect(node.acknowledged).toHaveLength(2);
    expect((await stateOf(files)).init?.stage).toBe('acknowledged');
  });

  test('ignores the ownership record of the cluster that `--identity` selects, if this is not the cluster of the workspace', async () => {
    const { files, node, options } = await start();
    const curator = await FakeCurator.start(node, OTHER_CLUSTER);
    curator.ownerPublicKey = new Uint8Array(32).fill(7);
    let lost = 0;
    node.onAcknowledged = () => (lost++ === 0 ? closeFor(node, 'for now') : Promise.resolve());
    const context = contextOf(files);
    const identity = await identityOf(files, node, OTHER_CLUSTER);
    await runInit({ ...context, paths: { ...context.paths, identity } }, options);
    expect(curator.asked).toBe(0);
    expect(node.acknowledged).toHaveLength(2);
  });

  test('fails after minutes with both causes, and repeating the command resumes', async () => {
    const { files, node, options } = await start();
    node.curatorEndpoint = await closedPort();
    node.onAcknowledged = () => closeFor(node, 'for now');
    const context = contextOf(files);
    const fast = { ...context, ports: { ...context.ports, clock: new FastClock() } };
    await expect(runInit(fast, options)).rejects.toMatchObject({
      code: 'cluster-unreachable',
      message: expect.stringContaining('or a curator') as unknown,
      cause: { message: expect.stringContaining(node.curatorEndpoint) as unknown },
    });
    expect((await stateOf(files)).init?.stage).toBe('granted');
    node.onAcknowledged = () => Promise.resolve();
    await runInit(contextOf(files), options);
    expect((await stateOf(files)).init?.stage).toBe('acknowledged');
  });
});

async function closedPort(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return `127.0.0.1:${port}`;
}

/** Makes long time limits expire soon. */
class FastClock extends HastyClock {
  override monotonicMs(): number {
    return super.monotonicMs() * 100;
  }
}

/** Breaks the connection while a request waits for its response. `good`: the init service also stops for good. */
async function closeFor(node: FakeNode, how: 'good' | 'for now' = 'good'): Promise<void> {
  if (how === 'good') void node.rpc.close(0);
  node.cut();
  await new Promise(() => undefined);
}

async function ownerKeyOf(files: MemoryFiles): Promise<KeyObject> {
  return createPublicKey(Buffer.from((await files.read(`${ROOT}/owner-key.pem`, 1e4)) ?? ''));
}

/**
 * The identity of an operator of another cluster, whose curator has the same address as the curator of this
 * cluster.
 */
async function identityOf(files: MemoryFiles, node: FakeNode, clusterId: string): Promise<string> {
  const path = `${ROOT}/other.json`;
  const identity = await createIdentity(plainSecrets(files), path, { name: 'eve', encrypt: false });
  const authority = await node.clusterAuthority();
  const pubKeyDer = pubKeyDerOf(identity.keyPem);
  const grant = {
    version: 1 as const,
    name: 'eve',
    role: 'owner' as const,
    clusterId,
    clusterCaPem: authority.caPem,
    certificatePem: await authority.issue(operatorLeaf({ clusterId, pubKeyDer, name: 'eve' })),
    curatorEndpoints: [node.curatorEndpoint],
  };
  await saveGrant(plainSecrets(files), path, { ...identity, grant });
  return path;
}

/** The cluster ownership that curators return and accept. */
class FakeCurator {
  readonly told: PutOwnershipRequest[] = [];
  asked = 0;
  ownerPublicKey = new Uint8Array();

  static async start(node: FakeNode, ofCluster?: string): Promise<FakeCurator> {
    const curator = new FakeCurator();
    const keyPem = generateKeyPem();
    const handlers = {
      getOwnership: async () => {
        curator.asked++;
        return { ownerPublicKey: curator.ownerPublicKey };
      },
      putOwnership: async (request: PutOwnershipRequest) => {
        curator.told.push(request);
        curator.ownerPublicKey = new Uint8Array(request.ownerPublicKey);
        return {};
      },
    };
    const server = opened(
      new RpcServer<string>({
        clock: new SystemClock(),
        upgrade: async (socket, signal) => {
          const clusterId = ofCluster ?? node.accepted?.spec.clusterId ?? '';
          const to = { clusterId, pubKeyDer: pubKeyDerOf(keyPem), addresses: ['127.0.0.1'] };
          const leaf = nodeLeaf({ ...to, isControlPlane: true });
          const certPem = await (await node.clusterAuthority()).issue(leaf);
          const identity = { certPem, keyPem };
          return tlsServerUpgrade({ clock: new SystemClock(), identity, accept: ({ subject }) => subject })(
            socket,
            signal,
          );
        },
        services: [implement(OperatorApi, handlers as never)],
        disclose: 'chain',
        log: createMemoryLogger().log,
      }),
    );
    node.curatorEndpoint = `127.0.0.1:${await server.listen('127.0.0.1', 0)}`;
    return curator;
  }
}
