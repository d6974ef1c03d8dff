import { expect, test } from '@jest/globals';
import { MemoryFiles } from '../../internal/testing/index.ts';
import { contextOf } from '../cluster/curator/fake-curator.ts';
import { runAttestMeasure } from './index.ts';

test('attest measure refuses a path that is no TPM, as an error of the caller', async () => {
  const context = contextOf(new MemoryFiles(), '/w');
  for (const tpm of ['/dev/null', '/dev/zero', '/dev/no-such-tpm', 'no-such-socket'])
    await expect(runAttestMeasure(context, { tpm })).rejects.toMatchObject({
      code: 'attest-tpm-unusable',
      exit: 'precondition',
      message: expect.stringContaining(`TPM ${tpm} unusable: `),
    });
});
