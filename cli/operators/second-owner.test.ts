import { describe, expect, test } from '@jest/globals';
import { CodedError } from '../../internal/errors/index.ts';
import { accessFromKubeconfig } from '../../internal/kube/index.ts';
import { isSignedByEd25519Key, voucherStatement } from '../../internal/crypto/index.ts';
import {
  createCaCertPem,
  generateKeyPem,
  KeyCertificateSigner,
  pubKeyDerOf,
  verifyCertificateRequest,
} from '../../internal/pki/index.ts';
import { contextOf, createCuratorHarness, type FakeAdmissionCalls } from '../cluster/curator/fake-curator.ts';
import { readCaller, renewKubeconfig, runKubeconfig } from '../cluster/index.ts';
import { fileOrClusterConfiguration } from '../configuration/index.ts';
import { runCloudInit } from '../cloudinit/index.ts';
import { runOperatorAccept, runOperatorKey } from './operator-identity.ts';
import { runOperatorAdd, runOperatorRemove } from './operators.ts';

const CONFIGURATION = JSON.stringify({
  version: 1,
  name: 'prod',
  attestation: { variants: ['machine-key'], firstContact: 'fingerprint' },
});

async function createKubernetes() {
  const keyPem = generateKeyPem();
  const nowMs = () => Date.now();
  const caPem = await createCaCertPem({ commonName: 'kubernetes', keyPem, nowMs: nowMs() });
  const signer = new KeyCertificateSigner({ caPem, keyPem, nowMs });
  const issueKubeconfig = async ({ certificateRequest }: { certificateRequest: Uint8Array }) => ({
    certificatePem: await signer.issue({
      ...{ commonName: 'bob', usages: ['client'], names: [], validDays: 365 },
      pubKeyDer: await verifyCertificateRequest(certificateRequest),
    }),
  });
  return { caPem, issueKubeconfig };
}

/** Bob was made an owner by the first owner. His directory contains only his identity. */
async function createHarnessWithBob(admission: FakeAdmissionCalls = {}) {
  const { caPem, issueKubeconfig } = await createKubernetes();
  const harness = await createCuratorHarness(
    { getConfiguration: async () => ({ document: new Uint8Array(Buffer.from(CONFIGURATION)) }) },
    { issueKubeconfig, ...admission },
  );
  const { files, owner } = harness;
  const state = JSON.parse(Buffer.from((await files.read('/owner/state.json', 1e6)) ?? '').toString()) as {
    init: { result: object };
  };
  Object.assign(state.init.result, { kubernetesCaPem: caPem, apiEndpoints: ['192.0.2.1:6443'] });
  await files.writeAtomic('/owner/state.json', JSON.stringify(state));
  await files.makeDirectory('/bob');
  const bob = contextOf(files, '/bob');
  await runOperatorKey(bob, 'bob', { request: undefined });
  await runOperatorAdd(owner, 'bob', { role: 'owner', request: '/bob/bob.csr', out: '/bob/bob.grant' });
  await runOperatorAccept(bob, '/bob/bob.grant');
  return { ...harness, bob: contextOf(files, '/bob'), owner: contextOf(files, '/owner'), caPem };
}

describe('a second owner', () => {
  test('gets a kubeconfig with the CA of the grant', async () => {
    await using harness = await createHarnessWithBob();
    const { bob, caPem, files } = harness;
    await expect(runKubeconfig(bob, { merge: false, home: '/bob' })).rejects.toMatchObject({
      code: 'cluster-no-kubeconfig',
    });
    await renewKubeconfig(bob);
    const again = contextOf(files, '/bob');
    await runKubeconfig(again, { merge: false, home: '/bob' });
    const text = Buffer.from((await files.read('/bob/kubeconfig', 1e6)) ?? '').toString();
    expect(again.host.answered).toMatchObject({ kubeconfig: text });
    expect(text).toContain('current-context: prod');
    expect(accessFromKubeconfig(text, 'kubeconfig')).toMatchObject({
      caPem,
      server: 'https://192.0.2.1:6443',
    });
  });

  test('provisions machines with the second owner’s key and the key of the owner who signed the cluster ownership', async () => {
    const signer = new Uint8Array(32).fill(7);
    await using harness = await createHarnessWithBob({
      getOwnership: async () => ({ ownerPublicKey: signer }),
    });
    const options = {
      endpoints: ['192.0.2.1'],
      package: undefined,
      tpm: true,
      format: 'provisioning',
    } as const;
    await runCloudInit(harness.bob, options);
    const { provisioning } = harness.bob.host.answered as { provisioning: { ownerKeys: readonly string[] } };
    expect(provisioning.ownerKeys).toEqual([expect.any(String), Buffer.from(signer).toString('base64')]);
    await runCloudInit(harness.owner, options);
    const own = harness.owner.host.answered as { provisioning: { ownerKeys: readonly string[] } };
    expect(own.provisioning.ownerKeys).toHaveLength(1);
    expect(provisioning.ownerKeys).not.toContain(own.provisioning.ownerKeys[0]);
  });

  test('has a voucher of the owner who added it, and vouches for the next owner', async () => {
    await using harness = await createHarnessWithBob();
    const { files, bob, clusterId } = harness;
    await files.makeDirectory('/carol');
    const carol = contextOf(files, '/carol');
    await runOperatorKey(carol, 'carol', { request: undefined });
    const [request, out] = ['/carol/carol.csr', '/carol/carol.grant'];
    await runOperatorAdd(bob, 'carol', { role: 'owner', request, out });
    await runOperatorAccept(carol, out);
    const members = [harness.owner, bob, carol].map((context) => readCaller(context));
    const [first, second, third] = await Promise.all(members);
    const keys = [second, third].map((member) => member && pubKeyDerOf(member.keyPem).slice(-32));
    expect(second?.vouchers).toHaveLength(1);
    expect(third?.vouchers.slice(0, 1)).toEqual(second?.vouchers);
    for (const [index, voucher] of (third?.vouchers ?? []).entries()) {
      const by = [first, second][index];
      const spki = by === undefined ? new Uint8Array() : pubKeyDerOf(by.keyPem);
      expect(Buffer.from(spki.slice(-32)).equals(voucher.by)).toBe(true);
      const statement = voucherStatement({ clusterId, ownerPubKey: keys[index] ?? new Uint8Array() });
      expect(isSignedByEd25519Key(spki, statement, voucher.signature)).toBe(true);
    }
  });

  test('an operator who is not an owner gets no voucher', async () => {
    await using harness = await createHarnessWithBob();
    const { files, owner, bob } = harness;
    await runOperatorAdd(owner, 'bob', { role: 'operator', request: '/bob/bob.csr', out: '/bob/bob.grant' });
    await runOperatorAccept(bob, '/bob/bob.grant');
    expect(await readCaller(contextOf(files, '/bob'))).toMatchObject({
      ...{ vouchers: [], kubernetes: { clusterName: 'prod' }, isOwner: false },
    });
  });

  test('an operator who is not an owner gets a kubeconfig', async () => {
    await using harness = await createHarnessWithBob();
    const { files, owner, bob } = harness;
    await runOperatorAdd(owner, 'bob', { role: 'operator', request: '/bob/bob.csr', out: '/bob/bob.grant' });
    await runOperatorAccept(bob, '/bob/bob.grant');
    await renewKubeconfig(contextOf(files, '/bob'));
    expect((await files.stat('/bob/kubeconfig'))?.mode).toBe(0o600);
  });

  test('gets the CA that the owner who adds it trusts, not one from a response', async () => {
    const putOperator = async () => ({ certificatePem: '', clusterCaPem: 'of somebody else' });
    await using harness = await createCuratorHarness({}, { putOperator });
    const { files, owner } = harness;
    const [request, out] = ['/ann/ann.csr', '/ann/ann.grant'];
    await runOperatorKey(contextOf(files, '/ann'), 'ann', { request });
    await runOperatorAdd(owner, 'ann', { role: 'owner', request, out });
    const { clusterCaPem } = await readCaller(owner);
    const grant = Buffer.from((await files.read(out, 1e6)) ?? '').toString();
    expect(JSON.parse(grant)).toMatchObject({ clusterCaPem });
  });

  test('uses their own cluster.yaml if they have one', async () => {
    await using harness = await createHarnessWithBob();
    const { files, bob } = harness;
    expect((await fileOrClusterConfiguration(bob)).name).toBe('prod');
    const own = CONFIGURATION.replace('name":"prod', 'name":"own');
    await files.writeAtomic('/bob/cluster.yaml', own);
    expect((await fileOrClusterConfiguration(bob)).name).toBe('own');
  });

  test('signs the cluster ownership before the previous signer is removed', async () => {
    const calls: string[] = [];
    const refusal = {
      'operatorapi-ownership-signer': {
        fault: 'operator',
        exit: 'precondition',
        retryable: false,
        meaning: '',
        fix: '',
      },
    } as const;
    await using harness = await createHarnessWithBob({
      deleteOperator: () => {
        calls.push('delete');
        if (calls.includes('sign')) return Promise.resolve({});
        return Promise.reject(new CodedError(refusal, 'operatorapi-ownership-signer', 'removing'));
      },
      putOwnership: async () => (calls.push('sign'), {}),
      listOperators: async () => ({ operators: [{ name: 'owner', role: 'owner' }] }),
    });
    await runOperatorRemove(harness.bob, 'owner', { dryRun: false, yes: true });
    expect(calls).toEqual(['delete', 'sign', 'delete']);
    expect(harness.bob.host.answered).toMatchObject({ removed: true, hasSigned: true });
    expect(JSON.stringify(harness.bob.host.records)).toMatch(/created in Kubernetes .* cluster keys rotate/);
  });
});
