import { expect, test } from '@jest/globals';
import {
  createControlPlane,
  placeAuthority,
  placeKubelet,
  placeSharedKeys,
  runAll,
} from '../fake-machine.ts';

/** The kubectl commands that stored the operator roles. */
const reconciled = ({ commands }: ReturnType<typeof createControlPlane>) =>
  commands.runs.filter((argv) => argv.includes('reconcile'));

test('the first control plane stores the rights of operators once', async () => {
  const bed = createControlPlane();
  await placeAuthority(bed.files);
  await runAll(bed.create());
  await runAll(bed.create());
  expect(reconciled(bed)).toHaveLength(1);
});

test('storing the rights of operators may take two minutes: kubectl reads and writes many objects', async () => {
  let limitMs: number | undefined;
  const bed = createControlPlane((argv, { timeoutMs }) => {
    if (argv.includes('reconcile')) limitMs = timeoutMs;
    return undefined;
  });
  await placeAuthority(bed.files);
  await runAll(bed.create());
  expect(limitMs).toBe(120_000);
});

test('a control plane of an earlier release stores the rights of operators at its next start, and fails if kubectl fails', async () => {
  let isBroken = true;
  const bed = createControlPlane((argv) =>
    isBroken && argv.includes('reconcile') ? { exitCode: 1, output: 'forbidden' } : undefined,
  );
  await placeKubelet(bed.files);
  await placeSharedKeys(bed.files);
  await runAll(bed.create({}, false)); // as an earlier release did
  expect(reconciled(bed)).toHaveLength(0);
  await expect(runAll(bed.create({}, false))).rejects.toMatchObject({ code: 'exec-failed' });
  isBroken = false;
  await runAll(bed.create({}, false));
  await runAll(bed.create({}, false));
  expect(reconciled(bed)).toHaveLength(2);
});
