import { describe, expect, test } from '@jest/globals';
import { encodeBundle, type CollateralItem } from '../../internal/attestation/collateral/index.ts';
import { CodedError, defineErrors } from '../../internal/errors/index.ts';
import { TestAmd } from '../../internal/testing/evidence/index.ts';
import { issueCrl } from '../../internal/testing/pki/index.ts';
import { CollateralStore } from '../attest/index.ts';
import { createCuratorHarness } from '../cluster/curator/fake-curator.ts';
import { runCollateralUpload } from './collateral-upload.ts';
import { runCollateralShow } from './collateral-show.ts';

const refused = defineErrors({
  'operatorapi-collateral-refused': {
    fault: 'operator',
    exit: 'refused',
    retryable: false,
    meaning: '-',
    fix: '-',
  },
});
const amd = new TestAmd('Milan');
const items: readonly CollateralItem[] = [
  { kind: 'certificate', der: amd.ark.der },
  { kind: 'crl', der: issueCrl({ issuer: amd.ark, nextUpdateMs: Date.UTC(2026, 6, 1) }) },
];
const HANDED_ON_MS = Date.UTC(2026, 9, 1);

/** A workstation and a cluster that keeps what it is given, unless it refuses. */
async function createOffice() {
  const cluster = { bundle: new Uint8Array(), isRefusing: false };
  const desk = await createCuratorHarness(
    {},
    {
      putCollateral: async ({ bundle }) => {
        if (cluster.isRefusing) throw new CodedError(refused, 'operatorapi-collateral-refused', 'verifying');
        cluster.bundle = Uint8Array.from(bundle);
        return { evaluationNumber: 17 };
      },
      getCollateral: async () =>
        cluster.bundle.length === 0
          ? {}
          : {
              bundle: cluster.bundle,
              evaluationNumber: 17,
              updatedMs: BigInt(HANDED_ON_MS),
              updatedBy: 'operator:owner',
            },
    },
  );
  const keep = () =>
    new CollateralStore(desk.files, '/owner').replace({ assembledMs: HANDED_ON_MS, items }, 17);
  return { desk, cluster, keep, [Symbol.asyncDispose]: () => desk[Symbol.asyncDispose]() };
}

describe('cluster attest collateral hand-on', () => {
  test('gives the cluster the bundle of the workspace, to the byte', async () => {
    await using office = await createOffice();
    await office.keep();
    await runCollateralUpload(office.desk.owner);
    const sent = Buffer.from(office.cluster.bundle).toString('utf8');
    expect(sent).toBe(encodeBundle({ assembledMs: HANDED_ON_MS, items }));
    expect(office.desk.owner.host.answered).toEqual({
      documents: 2,
      evaluationNumber: 17,
      assembled: '2026-10-01T00:00:00.000Z',
    });
  });

  test('has nothing to give before the first refresh', async () => {
    await using office = await createOffice();
    await expect(runCollateralUpload(office.desk.owner)).rejects.toMatchObject({
      code: 'attest-collateral-missing',
    });
  });

  test('says what the cluster refuses', async () => {
    await using office = await createOffice();
    await office.keep();
    office.cluster.isRefusing = true;
    await expect(runCollateralUpload(office.desk.owner)).rejects.toMatchObject({
      code: 'operatorapi-collateral-refused',
    });
  });
});

describe('cluster attest collateral show', () => {
  test('says that nobody has handed anything on', async () => {
    await using office = await createOffice();
    expect(await runCollateralShow(office.desk.owner)).toBe('ok');
    expect(office.desk.owner.host.answered).toEqual({ documents: [], evaluationNumber: 0 });
  });

  test('shows each document with its age and who brought them; exit 10 when one has run out', async () => {
    await using office = await createOffice();
    office.cluster.bundle = Buffer.from(encodeBundle({ assembledMs: HANDED_ON_MS, items }));
    expect(await runCollateralShow(office.desk.owner)).toBe('unhealthy');
    expect(office.desk.owner.host.answered).toMatchObject({
      updated: '2026-10-01T00:00:00.000Z',
      updatedBy: 'operator:owner',
      documents: [{ state: 'current' }, { state: 'expired' }],
    });
  });
});
