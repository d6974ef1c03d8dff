import { beforeEach, describe, expect, test } from '@jest/globals';
import { createSoftKey } from '../../internal/testing/tpm/fake-tpm.ts';
import { contextOf, createCuratorHarness } from '../cluster/curator/fake-curator.ts';
import { layoutOf, StateFile } from '../workspace/index.ts';
import { createMachine, evidenceAnswer, evidenceConfiguration } from './fake-evidence.ts';
import { expectMachine, forgetMachine } from './machine-pins.ts';
import { runVerifyNode } from './verify-node.ts';

const CHANGED = { verdict: 'refused', code: 'nodes-machine-changed' };

/**
 * A workspace, and a curator that returns a certain record and the evidence of a certain machine. A test can
 * change both.
 */
async function createVerified() {
  const answer = { record: createMachine('a').record, key: createSoftKey() };
  const harness = await createCuratorHarness(
    { getNode: async () => ({ node: answer.record }) },
    {},
    {
      getEvidence: async ({ nonce }: { readonly nonce: Uint8Array }) => {
        const { clusterId } = harness;
        return evidenceAnswer(answer, { clusterId, nonce });
      },
    },
  );
  await harness.files.writeAtomic('/owner/cluster.yaml', evidenceConfiguration());
  const answerAs = ({ key, record }: ReturnType<typeof createMachine>, over: object = {}): void => {
    Object.assign(answer, { key, record: { ...record, ...over } });
  };
  const verify = async (options = { acceptChange: false }, name = 'n2'): Promise<Report> => {
    const context = contextOf(harness.files, '/owner');
    await runVerifyNode(context, name, options);
    return context.host.answered as Report;
  };
  return Object.assign(harness, { answerAs, verify });
}

interface Report {
  readonly verdict: string;
  readonly code?: string;
  readonly reason?: string;
  readonly pin: string;
  readonly warnings: readonly string[];
}

let real: ReturnType<typeof createMachine>;
let other: ReturnType<typeof createMachine>;
beforeEach(() => {
  [real, other] = [createMachine('a'), createMachine('b')];
});

describe('cluster verify of a machine that was verified before', () => {
  test('reports that the cluster answers with another machine, and does not trust the evidence of that machine', async () => {
    await using world = await createVerified();
    world.answerAs(real);
    expect(await world.verify()).toMatchObject({ verdict: 'verified', pin: 'first seen' });
    expect(await world.verify()).toMatchObject({ verdict: 'verified', pin: 'unchanged' });
    world.answerAs(other);
    const report = await world.verify();
    expect(report).toMatchObject(CHANGED);
    expect(report.reason).toContain(real.record.admission.identity);
    expect(report.reason).toContain(other.record.admission.identity);
    world.answerAs(real);
    expect(await world.verify()).toMatchObject({ verdict: 'verified', pin: 'unchanged' });
  });

  test.each([
    {
      name: 'another attestation key',
      over: () => ({ admission: { ...real.record.admission, akName: other.record.admission.akName } }),
    },
    {
      name: 'another node key',
      over: () => ({ nodeId: other.record.nodeId, publicKey: other.record.publicKey }),
    },
    {
      name: 'another kind of evidence',
      over: () => ({ admission: { ...real.record.admission, variant: 'machine-key' } }),
    },
    { name: 'no machine', over: () => ({ admission: undefined }) },
    {
      name: 'a node key that does not belong to its node ID',
      over: () => ({ publicKey: other.record.publicKey }),
    },
  ])('refuses a record with $name', async ({ over }) => {
    await using world = await createVerified();
    world.answerAs(real);
    await world.verify();
    world.answerAs(real, over());
    expect(await world.verify()).toMatchObject(CHANGED);
  });

  test('refuses the same machine under another name', async () => {
    await using world = await createVerified();
    world.answerAs(real);
    await world.verify();
    world.answerAs(real, { name: 'n3' });
    expect(await world.verify({ acceptChange: false }, 'n3')).toMatchObject(CHANGED);
    expect(await world.verify({ acceptChange: false }, real.record.nodeId)).toMatchObject(CHANGED);
  });

  test('refuses a response with the record of another node than the requested one', async () => {
    await using world = await createVerified();
    world.answerAs(real);
    expect(await world.verify({ acceptChange: false }, 'n7')).toMatchObject(CHANGED);
  });

  test('accepts another machine with --accept-change, but only with valid evidence', async () => {
    await using world = await createVerified();
    world.answerAs(real);
    await world.verify();
    world.answerAs({ ...other, key: real.key });
    expect(await world.verify({ acceptChange: true })).toMatchObject({ verdict: 'refused' });
    world.answerAs(other);
    expect(await world.verify()).toMatchObject(CHANGED);
    expect(await world.verify({ acceptChange: true })).toMatchObject({ pin: 'accepted' });
    expect(await world.verify()).toMatchObject({ verdict: 'verified', pin: 'unchanged' });
  });

  test('does not treat a damaged file of a known machine as a machine that was never seen', async () => {
    await using world = await createVerified();
    world.answerAs(real);
    await world.verify();
    await world.files.writeAtomic('/owner/machines/n2.json', '{}');
    await expect(world.verify()).rejects.toMatchObject({ code: 'nodes-pin-damaged' });
  });
});

describe('the machine that cluster verify expects', () => {
  test('comes from the init for the first node', async () => {
    await using world = await createVerified();
    const state = await StateFile.read(world.files, layoutOf('/owner'), { programVersion: 'test' });
    await state.update((before) => {
      if (before.init?.result === undefined) throw new TypeError('no init');
      const { nodeId, admission } = real.record;
      const machine = {
        variant: 'tpm',
        identity: admission.identity,
        attestationKey: admission.akName,
        endorsementKey: 'a'.repeat(64),
      };
      return {
        ...before,
        init: { ...before.init, machine, result: { ...before.init.result, nodeId, nodeName: 'n2' } },
      };
    });
    world.answerAs(other);
    expect(await world.verify()).toMatchObject(CHANGED);
    world.answerAs(real);
    expect(await world.verify()).toMatchObject({ verdict: 'verified', pin: 'unchanged' });
  });

  test('comes from the inventory of cluster.yaml, also with --accept-change', async () => {
    await using world = await createVerified();
    const { identity } = real.record.admission;
    await world.files.writeAtomic(
      '/owner/cluster.yaml',
      evidenceConfiguration({ inventory: [{ identity, name: 'n2' }] }),
    );
    world.answerAs(other);
    expect(await world.verify()).toMatchObject(CHANGED);
    expect(await world.verify({ acceptChange: true })).toMatchObject(CHANGED);
    world.answerAs(real, { name: 'n3' });
    expect(await world.verify({ acceptChange: false }, 'n3')).toMatchObject(CHANGED);
    world.answerAs(real);
    const report = await world.verify();
    expect(report).toMatchObject({ verdict: 'verified', pin: 'completed' });
    expect(report.warnings.join()).not.toContain('Compare');
  });

  test('comes from the approval of an operator, without the attestation key', async () => {
    await using world = await createVerified();
    const { nodeId, admission } = real.record;
    const { identity } = admission;
    await expectMachine(contextOf(world.files, '/owner'), { name: 'n2', nodeId, identity });
    world.answerAs(other);
    expect(await world.verify()).toMatchObject(CHANGED);
    world.answerAs(real);
    const report = await world.verify();
    expect(report).toMatchObject({ verdict: 'verified', pin: 'completed' });
    expect(report.warnings.join()).not.toContain('Compare');
    expect(await world.verify()).toMatchObject({ verdict: 'verified', pin: 'unchanged' });
  });

  test('passes with a warning if only the record of the node names the machine', async () => {
    await using world = await createVerified();
    world.answerAs(real);
    expect((await world.verify()).warnings.join()).toContain('Compare');
  });
});

describe('forgetMachine()', () => {
  test('after a reset: the same machine with other keys is accepted, another machine is not', async () => {
    await using world = await createVerified();
    world.answerAs(real);
    await world.verify();
    await forgetMachine(contextOf(world.files, '/owner'), real.record, { isReset: true });
    world.answerAs(other);
    expect(await world.verify()).toMatchObject(CHANGED);
    world.answerAs({
      ...other,
      record: {
        ...other.record,
        admission: { ...other.record.admission, identity: real.record.admission.identity },
      },
    });
    expect(await world.verify()).toMatchObject({ verdict: 'verified', pin: 'completed' });
    expect(await world.verify()).toMatchObject({ verdict: 'verified', pin: 'unchanged' });
  });

  test('after a removal: another machine may have the name', async () => {
    await using world = await createVerified();
    world.answerAs(real);
    await world.verify();
    await forgetMachine(contextOf(world.files, '/owner'), real.record, { isReset: false });
    world.answerAs(other);
    expect(await world.verify()).toMatchObject({ verdict: 'verified', pin: 'first seen' });
  });

  test('keeps the pin of another machine that has the name', async () => {
    await using world = await createVerified();
    world.answerAs(real);
    await world.verify();
    await forgetMachine(contextOf(world.files, '/owner'), other.record, { isReset: false });
    expect(await world.verify()).toMatchObject({ pin: 'unchanged' });
  });
});
