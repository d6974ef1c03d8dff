import { expect, test } from '@jest/globals';
import { SIGNER_STATE_DIRECTORY } from '../units/index.ts';
import { DATA_DIRECTORIES } from './paths.ts';

test('DATA_DIRECTORIES contains the keys of the signer: they are on the state disk and in the status of the node', () => {
  expect(DATA_DIRECTORIES.map(({ path }) => path)).toContain(SIGNER_STATE_DIRECTORY);
});
