import { afterEach, describe, expect, test } from '@jest/globals';
import { SystemClock } from '../../internal/clock/index.ts';
import {
  createAuthorityPem,
  fingerprintOfKey,
  generateKeyPem,
  KeySigner,
  nodeLeaf,
  operatorLeaf,
  pubKeyOf,
  verifyMember,
  verifyRequest,
  type MemberIdentity,
} from '../../internal/pki/index.ts';
import { implement, RpcServer, tlsServerUpgrade } from '../../internal/rpc/index.ts';
import { createMemoryLogger, FakeCommands, MemoryFiles } from '../../internal/testing/index.ts';
import { Admission } from '../../joinservice/curatorproto/gen/admission_pb.js';
import { Curator } from '../../joinservice/curatorproto/gen/curator_pb.js';
import type { CommandContext } from '../app/command.ts';
import { generateWorkspace, openWorkspace } from '../cluster/index.ts';
import { RecordingHost } from '../host/index.ts';
import { readOwnerKey } from '../workspace/index.ts';
import { runOperatorAccept, runOperatorAdd, runOperatorKey, runOperatorList } from './index.ts';

const CLUSTER_ID = '00112233445566778899aabbccddeeff';
const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0)) await each[Symbol.asyncDispose]();
});

const coded = (code: string): unknown => expect.objectContaining({ code });
const textOf = async (files: MemoryFiles, path: string): Promise<string> =>
  Buffer.from((await files.read(path, 1_000_000)) ?? '').toString('utf8');

function contextOf(files: MemoryFiles, workspace: string, identity?: string) {
  return {
    host: new RecordingHost(),
    ports: { files, commands: new FakeCommands(), clock: new SystemClock() },
    paths: { cache: '/cache', data: '/data', config: '/config', workspace, identity },
    env: {},
    signal: new AbortController().signal,
  } satisfies CommandContext;
}

/** A cluster that signs for every request and remembers who asked. */
async function createCluster(files: MemoryFiles) {
  const caKey = generateKeyPem();
  const caPem = await createAuthorityPem({ commonName: 'cluster', keyPem: caKey, nowMs: Date.now() });
  const signer = new KeySigner({ caPem, keyPem: caKey, nowMs: () => Date.now() });
  const asked: MemberIdentity[] = [];
  const endpoint = await serve(signer, asked);
  const owner = contextOf(files, '/owner');
  await generateWorkspace(owner, { name: 'prod' });
  await using workspace = await openWorkspace(owner, 'test');
  const { keyPem } = await readOwnerKey(files, workspace.layout);
  const leaf = operatorLeaf({ clusterId: CLUSTER_ID, pubKeyDer: pubKeyOf(keyPem), name: 'owner' });
  const result = {
    clusterId: CLUSTER_ID,
    nodeId: 'node-1',
    nodeName: 'n1',
    clusterCaPem: caPem,
    ownerCertPem: await signer.issue(leaf),
    kubernetesCaPem: caPem,
    adminCertPem: '',
    apiEndpoints: [],
    curatorEndpoints: [endpoint],
    epoch: '1',
  };
  await workspace.state.update((state) => ({
    ...state,
    init: {
      id: '6b0f3f5e-7d0c-4b0a-9d0e-1f2a3b4c5d6e',
      endpoint: '127.0.0.1:9000',
      fingerprint: 'sha256:00',
      requestHash: '00',
      startedMs: 1,
      stage: 'acknowledged',
      result,
    },
  }));
  return { owner, asked };
}

async function serve(signer: KeySigner, asked: MemberIdentity[]): Promise<string> {
  const keyPem = generateKeyPem();
  const addresses = ['127.0.0.1'];
  const certPem = await signer.issue(
    nodeLeaf({ clusterId: CLUSTER_ID, pubKeyDer: pubKeyOf(keyPem), addresses }),
  );
  const trust = { caPem: signer.caPem, clusterId: CLUSTER_ID, nowMs: () => Date.now() };
  let endpoint = '';
  const unused = () => Promise.reject(new Error('not part of this test'));
  const admission = {
    ...Object.fromEntries(Admission.methods.map(({ localName }) => [localName, unused])),
    listOperators: async (_: unknown, { peer }: { peer: MemberIdentity }) => {
      asked.push(peer);
      return { operators: [] };
    },
    putOperator: async (request: { name: string; role: string; certificateRequest: Uint8Array }) => {
      const pubKeyDer = await verifyRequest(request.certificateRequest);
      const leaf = operatorLeaf({ clusterId: CLUSTER_ID, pubKeyDer, name: request.name });
      return {
        operator: { name: request.name, role: request.role, fingerprint: fingerprintOfKey(pubKeyDer) },
        certificatePem: await signer.issue(leaf),
        clusterCaPem: signer.caPem,
      };
    },
  };
  const curator = {
    ...Object.fromEntries(Curator.methods.map(({ localName }) => [localName, unused])),
    getClusterInfo: async () => ({ directory: [{ curatorEndpoint: endpoint }] }),
  };
  const server = new RpcServer<MemberIdentity>({
    upgrade: tlsServerUpgrade({
      identity: { certPem, keyPem },
      accept: (shown) => verifyMember(shown, trust),
    }),
    services: [implement(Admission, admission as never), implement(Curator, curator as never)],
    disclose: 'chain',
    log: createMemoryLogger().log,
  });
  open.push(server);
  endpoint = `127.0.0.1:${await server.listen('127.0.0.1', 0)}`;
  return endpoint;
}

async function createDesk() {
  const files = new MemoryFiles();
  for (const folder of ['/owner', '/ann', '/proc/self', '/proc/sys/kernel/random', '/etc'])
    await files.makeDirectory(folder);
  return { files, ...(await createCluster(files)) };
}

describe('an operator', () => {
  test('makes a key, is added by the owner, takes the grant, and asks as themselves from anywhere', async () => {
    const { files, owner, asked } = await createDesk();
    const ann = contextOf(files, '/ann');
    await runOperatorKey(ann, 'ann', { request: undefined });
    expect((await files.stat('/ann/identity.json'))?.mode).toBe(0o600);
    await runOperatorAdd(owner, 'ann', { role: 'viewer', request: '/ann/ann.csr', out: '/ann/ann.grant' });
    await runOperatorAccept(ann, '/ann/ann.grant');
    await runOperatorList(ann);
    await runOperatorList(contextOf(files, '/elsewhere', '/ann/identity.json'));
    await runOperatorList(owner);
    expect(asked.map((each) => each.kind === 'operator' && each.name)).toEqual(['ann', 'ann', 'owner']);
    expect(await textOf(files, '/ann/ann.grant')).not.toContain('PRIVATE KEY');
  });

  test('keeps the key however often one is asked for, and never replaces that of somebody else', async () => {
    const { files } = await createDesk();
    const ann = contextOf(files, '/ann');
    await runOperatorKey(ann, 'ann', { request: undefined });
    const [identity, request] = [await textOf(files, '/ann/identity.json'), '/ann/again.csr'];
    const again = contextOf(files, '/ann');
    await runOperatorKey(again, 'ann', { request });
    expect(await textOf(files, '/ann/identity.json')).toBe(identity);
    await expect(runOperatorKey(ann, 'bob', { request: undefined })).rejects.toEqual(
      coded('workspace-identity-invalid'),
    );
    expect(again.host.answered).toMatchObject({ created: false, request });
  });

  test('can not ask before an owner has answered, nor with an identity that others can read', async () => {
    const { files } = await createDesk();
    const ann = contextOf(files, '/ann');
    await runOperatorKey(ann, 'ann', { request: undefined });
    await expect(runOperatorList(ann)).rejects.toEqual(coded('cluster-identity-not-granted'));
    await files.writeAtomic('/ann/identity.json', await textOf(files, '/ann/identity.json'), { mode: 0o644 });
    await expect(runOperatorList(ann)).rejects.toEqual(coded('workspace-key-mode'));
    const lost = contextOf(files, '/ann', '/nowhere.json');
    await expect(runOperatorList(lost)).rejects.toEqual(coded('workspace-missing'));
  });

  test('takes no grant that is for another key, of another cluster, or no grant at all', async () => {
    const { files, owner } = await createDesk();
    await runOperatorKey(contextOf(files, '/ann'), 'ann', { request: undefined });
    const bob = contextOf(files, '/bob');
    await runOperatorKey(bob, 'bob', { request: undefined });
    await runOperatorAdd(owner, 'ann', { role: 'viewer', request: '/ann/ann.csr', out: '/ann/ann.grant' });
    await expect(runOperatorAccept(bob, '/ann/ann.grant')).rejects.toEqual(coded('manage-flag-invalid'));
    const grant = JSON.parse(await textOf(files, '/ann/ann.grant')) as Record<string, unknown>;
    const keyPem = generateKeyPem();
    const clusterCaPem = await createAuthorityPem({ commonName: 'other', keyPem, nowMs: Date.now() });
    await files.writeAtomic('/ann/other.grant', JSON.stringify({ ...grant, clusterCaPem }));
    await files.writeAtomic('/ann/none.grant', '{}');
    const ann = contextOf(files, '/ann');
    await expect(runOperatorAccept(ann, '/ann/other.grant')).rejects.toThrow();
    await expect(runOperatorAccept(ann, '/ann/none.grant')).rejects.toEqual(
      coded('workspace-identity-invalid'),
    );
    await expect(runOperatorList(ann)).rejects.toEqual(coded('cluster-identity-not-granted'));
  });
});
