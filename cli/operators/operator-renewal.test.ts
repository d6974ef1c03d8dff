import { describe, expect, test } from '@jest/globals';
import { CodedError } from '../../internal/errors/index.ts';
import { renderKubeconfig } from '../../internal/kube/index.ts';
import {
  createCaCertPem,
  generateKeyPem,
  KeyCertificateSigner,
  pubKeyDerOf,
  verifyCertificateRequest,
  type MemberIdentity,
} from '../../internal/pki/index.ts';
import { contextOf, createCuratorHarness } from '../cluster/curator/fake-curator.ts';
import { currentKubeAccess } from '../cluster/index.ts';
import { runOperatorAccept, runOperatorKey } from './operator-identity.ts';
import { runOperatorAdd, runOperatorList } from './operators.ts';

const DAY_MS = 24 * 60 * 60 * 1000;
const namesOf = (asked: MemberIdentity[]) =>
  asked.splice(0).map((each) => (each.kind === 'operator' ? each.name : 'a node'));

/** A harness whose cluster has an owner, and an operator ann with the role viewer. */
async function createHarnessWithAnn(...calls: Parameters<typeof createCuratorHarness>) {
  const harness = await createCuratorHarness(...calls);
  const { files, owner, clock } = harness;
  const ann = contextOf(files, '/ann', undefined, clock);
  await runOperatorKey(ann, 'ann', { request: undefined });
  await runOperatorAdd(owner, 'ann', { role: 'viewer', request: '/ann/ann.csr', out: '/ann/ann.grant' });
  await runOperatorAccept(ann, '/ann/ann.grant');
  harness.asked.splice(0);
  return { ...harness, ann };
}

const refusing = {
  renewOperator: () =>
    Promise.reject(
      new CodedError(
        { 'test-refused': { fault: 'operator', exit: 'refused', retryable: false, meaning: '', fix: '' } },
        'test-refused',
        'renewing',
      ),
    ),
};

describe.each(['owner', 'ann'] as const)('the certificate of %s', (who) => {
  test.each([
    { name: 'is used for the first two thirds of its lifetime', days: 240, asked: [who, who] },
    {
      name: 'is renewed once after two thirds of its lifetime, by a request that proves only the key',
      days: 250,
      asked: ['bare', 'renewed', 'renewed'],
    },
    {
      name: 'is renewed after 400 days, when it has expired',
      days: 400,
      asked: ['bare', 'renewed', 'renewed'],
    },
  ])('$name', async ({ days, asked }) => {
    await using harness = await createHarnessWithAnn();
    harness.clock.aheadMs = days * DAY_MS;
    await runOperatorList(harness[who]);
    await runOperatorList(harness[who]);
    expect(namesOf(harness.asked)).toEqual(asked);
  });

  test('is used until it expires if renewal fails', async () => {
    await using harness = await createHarnessWithAnn({}, refusing);
    harness.clock.aheadMs = 300 * DAY_MS;
    await runOperatorList(harness[who]);
    expect(namesOf(harness.asked)).toEqual([who]);
    harness.clock.aheadMs = 400 * DAY_MS;
    await expect(runOperatorList(harness[who])).rejects.toMatchObject({ code: 'test-refused' });
  });

  test('is requested again if the saved one is missing or of another operator', async () => {
    await using harness = await createHarnessWithAnn();
    harness.clock.aheadMs = 400 * DAY_MS;
    const [own, other] = ['/owner/owner.crt', '/ann/identity.crt'];
    const path = who === 'owner' ? own : other;
    await runOperatorList(harness.owner);
    await runOperatorList(harness.ann);
    const others = (await harness.files.read(who === 'owner' ? other : own, 65_536)) ?? '';
    for (const text of [others, 'no certificate', '']) {
      await harness.files.writeAtomic(path, text);
      namesOf(harness.asked);
      await runOperatorList(harness[who]);
      expect(namesOf(harness.asked)).toEqual(['bare', 'renewed']);
    }
  });
});

describe('the kubeconfig in the workspace of an owner', () => {
  /** A harness whose workspace has a kubeconfig as old as the test cluster. */
  async function createHarnessWithKubeconfig(isRefused = false) {
    const [issued, refused]: [number[], number[]] = [[], []];
    const issue = async ({ certificateRequest }: { certificateRequest: Uint8Array }) => {
      if (isRefused) {
        refused.push(1);
        return refusing.renewOperator();
      }
      issued.push(1);
      return { certificatePem: await authority.client(await verifyCertificateRequest(certificateRequest)) };
    };
    const harness = await createCuratorHarness({}, { issueKubeconfig: issue });
    const { files, owner, clock } = harness;
    const authority = await createAuthority(() => clock.nowMs());
    const path = '/owner/state.json';
    const state = JSON.parse(Buffer.from((await files.read(path, 1e6)) ?? '').toString()) as {
      init: { result: { kubernetesCaPem: string } };
    };
    state.init.result.kubernetesCaPem = authority.caPem;
    await files.writeAtomic(path, JSON.stringify(state));
    const keyPem = generateKeyPem();
    const certPem = await authority.client(pubKeyDerOf(keyPem));
    const access = { server: 'https://127.0.0.1:1', caPem: authority.caPem, certPem, keyPem };
    await files.writeAtomic('/owner/kubeconfig', renderKubeconfig('prod', access), { mode: 0o600 });
    return {
      ...harness,
      authority,
      keyPem,
      access,
      issued,
      refused,
      certPem,
      ask: () => currentKubeAccess(owner),
    };
  }

  test('is renewed once, when two thirds of its lifetime have passed', async () => {
    await using harness = await createHarnessWithKubeconfig();
    harness.clock.aheadMs = 240 * DAY_MS;
    expect((await harness.ask()).certPem).toBe(harness.certPem);
    harness.clock.aheadMs = 250 * DAY_MS;
    const renewed = await harness.ask();
    expect(renewed.certPem).not.toBe(harness.certPem);
    expect(await harness.ask()).toMatchObject({ certPem: renewed.certPem, server: 'https://127.0.0.1:1' });
    expect(harness.issued).toHaveLength(1);
  });

  test('is not renewed if its certificate is not one that the cluster issues to owners, operators and viewers', async () => {
    await using harness = await createHarnessWithKubeconfig();
    const certPem = await harness.authority.client(pubKeyDerOf(harness.keyPem), 'some');
    const text = renderKubeconfig('prod', { ...harness.access, certPem });
    await harness.files.writeAtomic('/owner/kubeconfig', text, { mode: 0o600 });
    harness.clock.aheadMs = 300 * DAY_MS;
    expect((await harness.ask()).certPem).toBe(certPem);
    expect(harness.issued).toEqual([]);
  });

  test('is used until it expires if renewal fails', async () => {
    await using harness = await createHarnessWithKubeconfig(true);
    harness.clock.aheadMs = 300 * DAY_MS;
    for (let looks = 0; looks < 3; looks++) expect((await harness.ask()).certPem).toBe(harness.certPem);
    expect(harness.refused).toHaveLength(1); // each command tries to renew only once
    harness.clock.aheadMs = 400 * DAY_MS;
    await expect(harness.ask()).rejects.toMatchObject({ code: 'test-refused' });
  });
});

async function createAuthority(nowMs: () => number) {
  const keyPem = generateKeyPem();
  const caPem = await createCaCertPem({ commonName: 'kubernetes', keyPem, nowMs: nowMs() });
  const signer = new KeyCertificateSigner({ caPem, keyPem, nowMs });
  const leaf = { commonName: 'owner', usages: ['client'], names: [], validDays: 365 } as const;
  return {
    caPem,
    client: (pubKeyDer: Uint8Array, organization = 'kubeadm:cluster-admins') =>
      signer.issue({ ...leaf, organization, pubKeyDer }),
  };
}
