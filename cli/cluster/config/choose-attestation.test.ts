import { describe, expect, test } from '@jest/globals';
import { RecordingHost } from '../../host/fake-host.ts';
import { chooseAttestation } from './choose-attestation.ts';

const hostAnswering = (...answers: readonly boolean[]) => {
  const left = [...answers];
  const host = new RecordingHost();
  return Object.assign(host, { interactive: answers.length > 0, confirm: async () => left.shift() ?? false });
};

describe('chooseAttestation()', () => {
  test.each([
    { name: 'no terminal and no flag', answers: [], flag: undefined, want: ['tpm'] },
    { name: 'a flag with one variant', answers: [], flag: 'machine-key', want: ['machine-key'] },
    {
      name: 'a flag with both variants in either order',
      answers: [],
      flag: 'machine-key, tpm',
      want: ['tpm', 'machine-key'],
    },
    { name: 'a user who chooses only TPMs', answers: [true, false], flag: undefined, want: ['tpm'] },
    {
      name: 'a user who chooses both variants',
      answers: [true, true],
      flag: undefined,
      want: ['tpm', 'machine-key'],
    },
    { name: 'a user without TPMs', answers: [false], flag: undefined, want: ['machine-key'] },
  ])('chooseAttestation() returns $want for $name', async ({ answers, flag, want }) => {
    const chosen = await chooseAttestation({ host: hostAnswering(...answers) }, flag);
    expect(chosen).toMatchObject({ variants: want, firstContact: 'fingerprint' });
  });

  test.each([
    { flag: 'tdx', want: 'cluster-variant-values' },
    { flag: 'tpm,none', want: 'cluster-variant-unknown' },
    { flag: '', want: 'cluster-variant-unknown' },
  ])('refuses the flag "$flag"', async ({ flag, want }) => {
    const chosen = chooseAttestation({ host: hostAnswering() }, flag);
    await expect(chosen).rejects.toMatchObject({ code: want, exit: 'usage' });
  });
});
