import { describe, expect, test } from '@jest/globals';
import { EMPTY_CHAIN, extendChain } from '../../internal/audit/index.ts';
import { CodedError, defineErrors, fault } from '../../internal/errors/index.ts';
import { createCaCertPem, generateKeyPem } from '../../internal/pki/index.ts';
import type { MemoryFiles } from '../../internal/testing/index.ts';
import { contextOf, createCuratorHarness } from '../cluster/curator/fake-curator.ts';
import { runAuditVerify } from '../audit/index.ts';
import { runOperatorAccept, runOperatorKey } from './operator-identity.ts';
import { runOperatorAdd, runOperatorList, runOperatorRemove } from './operators.ts';

const refusals = defineErrors({ 'operatorapi-operator-unknown': fault.operator.precondition('-', '-') });
const coded = (code: string): unknown => expect.objectContaining({ code });
const textOf = async (files: MemoryFiles, path: string): Promise<string> =>
  Buffer.from((await files.read(path, 1_000_000)) ?? '').toString('utf8');

describe('an operator', () => {
  test('creates a key, is added by an owner, accepts the grant and authenticates from any directory', async () => {
    await using harness = await createCuratorHarness();
    const { files, owner, asked } = harness;
    const ann = contextOf(files, '/ann');
    await runOperatorKey(ann, 'ann', { request: undefined });
    expect((await files.stat('/ann/identity.json'))?.mode).toBe(0o600);
    await runOperatorAdd(owner, 'ann', { role: 'viewer', request: '/ann/ann.csr', out: '/ann/ann.grant' });
    await runOperatorAccept(ann, '/ann/ann.grant');
    await runOperatorList(ann);
    await runOperatorList(contextOf(files, '/elsewhere', '/ann/identity.json'));
    await runOperatorList(owner);
    expect(asked.map((each) => each.kind === 'operator' && each.name)).toEqual([
      'owner',
      'ann',
      'ann',
      'owner',
    ]);
    expect(await textOf(files, '/ann/ann.grant')).not.toContain('PRIVATE KEY');
  });

  test('keeps an existing key and never replaces the key of another operator', async () => {
    await using harness = await createCuratorHarness();
    const { files } = harness;
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

  test('gets a new grant in the file of the earlier one, which replaces no grant of another operator', async () => {
    await using harness = await createCuratorHarness();
    const { files, owner } = harness;
    for (const name of ['ann', 'bob'])
      await runOperatorKey(contextOf(files, `/${name}`), name, { request: undefined });
    const add = (name: string, role: string) =>
      runOperatorAdd(owner, name, { role, request: `/${name}/${name}.csr`, out: '/ann/ann.grant' });
    await add('ann', 'viewer');
    await add('ann', 'operator');
    const grant = await textOf(files, '/ann/ann.grant');
    expect(JSON.parse(grant)).toMatchObject({ name: 'ann', role: 'operator' });
    await expect(add('bob', 'viewer')).rejects.toEqual(coded('app-file-exists'));
    expect(await textOf(files, '/ann/ann.grant')).toBe(grant);
  });

  test('creates no key if the file for the request has other content', async () => {
    await using harness = await createCuratorHarness();
    const { files } = harness;
    await files.makeDirectory('/ann');
    await files.writeAtomic('/ann/ann.csr', 'mine');
    const create = () => runOperatorKey(contextOf(files, '/ann'), 'ann', { request: undefined });
    await expect(create()).rejects.toEqual(coded('app-file-exists'));
    expect(await files.list('/ann')).toEqual(['ann.csr']);
    await files.remove('/ann/ann.csr');
    for (const _ of ['once', 'again']) await create();
  });

  test('is refused without a grant, and with an identity file that others can read', async () => {
    await using harness = await createCuratorHarness();
    const { files } = harness;
    const ann = contextOf(files, '/ann');
    await runOperatorKey(ann, 'ann', { request: undefined });
    await expect(runOperatorList(ann)).rejects.toEqual(coded('cluster-identity-not-granted'));
    await files.writeAtomic('/ann/identity.json', await textOf(files, '/ann/identity.json'), { mode: 0o644 });
    await expect(runOperatorList(ann)).rejects.toEqual(coded('workspace-key-mode'));
    const lost = contextOf(files, '/ann', '/nowhere.json');
    await expect(runOperatorList(lost)).rejects.toEqual(coded('workspace-identity-missing'));
  });

  test('compares the audit log only with checkpoints that the operator has signed', async () => {
    const facts = { timeMs: 1, caller: 'operator:owner', method: 'Test', subject: 'x', detail: {} };
    const { head, record } = extendChain(EMPTY_CHAIN, facts);
    await using harness = await createCuratorHarness(
      {},
      {
        listAudit: async function* () {
          yield { message: { case: 'entry', value: { seq: 1n, record } } };
          yield { message: { case: 'head', value: { seq: 1n, hash: head.hash, firstSeq: 1n, epoch: 1n } } };
        },
      },
    );
    const { files, owner } = harness;
    for (const name of ['ann', 'bob']) {
      const context = contextOf(files, '/ann', `/ann/${name}.json`);
      const [request, out] = [`/ann/${name}.csr`, `/ann/${name}.grant`];
      await runOperatorKey(context, name, { request });
      await runOperatorAdd(owner, name, { role: 'viewer', request, out });
      await runOperatorAccept(context, out);
      for (let runs = 0; runs < 2; runs++) {
        const again = contextOf(files, '/ann', `/ann/${name}.json`);
        await runAuditVerify(again, undefined);
        expect(again.host.answered).toMatchObject({ entries: 1, checkpoints: runs });
      }
    }
  });

  test('is removed once: the audit log tells a repeated removal from a wrong name', async () => {
    const facts = {
      timeMs: 1,
      caller: 'operator:owner',
      method: 'DeleteOperator',
      subject: 'ann',
      detail: {},
    };
    const { head, record } = extendChain(EMPTY_CHAIN, facts);
    await using harness = await createCuratorHarness(
      {},
      {
        listOperators: async () => ({ operators: [] }),
        deleteOperator: async ({ name }) => {
          throw new CodedError(refusals, 'operatorapi-operator-unknown', `operator ${name} not found`);
        },
        listAudit: async function* () {
          yield { message: { case: 'entry', value: { seq: 1n, record } } };
          yield { message: { case: 'head', value: { seq: 1n, hash: head.hash, firstSeq: 1n, epoch: 1n } } };
        },
      },
    );
    const remove = async (name: string, dryRun: boolean) => {
      const context = contextOf(harness.files, '/owner');
      await runOperatorRemove(context, name, { dryRun, yes: true });
      return context.host;
    };
    const said = 'Operator ann was removed already, at 1970-01-01T00:00:00.001Z by operator:owner.';
    const { answered, records } = await remove('ann', false);
    expect(answered).toMatchObject({ name: 'ann', removed: true, removedMs: 1 });
    expect(records).toContainEqual(expect.objectContaining({ text: said }));
    expect((await remove('ann', true)).records).toContainEqual(
      expect.objectContaining({ text: `${said} Nothing would be changed.` }),
    );
    await expect(remove('bob', false)).rejects.toEqual(coded('operatorapi-operator-unknown'));
    expect((await remove('bob', true)).records).toContainEqual(
      expect.objectContaining({ text: 'operator "bob" not found. Nothing would be changed.' }),
    );
  });

  test('refuses a grant for another key, of another cluster, or malformed', async () => {
    await using harness = await createCuratorHarness();
    const { files, owner } = harness;
    await runOperatorKey(contextOf(files, '/ann'), 'ann', { request: undefined });
    const bob = contextOf(files, '/bob');
    await runOperatorKey(bob, 'bob', { request: undefined });
    await runOperatorAdd(owner, 'ann', { role: 'viewer', request: '/ann/ann.csr', out: '/ann/ann.grant' });
    await expect(runOperatorAccept(bob, '/ann/ann.grant')).rejects.toEqual(coded('app-usage'));
    const grant = JSON.parse(await textOf(files, '/ann/ann.grant')) as Record<string, unknown>;
    const keyPem = generateKeyPem();
    const clusterCaPem = await createCaCertPem({ commonName: 'other', keyPem, nowMs: Date.now() });
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
