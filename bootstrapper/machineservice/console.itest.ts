import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, expect, test } from '@jest/globals';
import { closeOpened, opened, temporaryDirectory } from '../../internal/testing/index.ts';
import { failureText, ISSUE_PATH, issueText } from './console.ts';

const FINGERPRINT = `sha256:${'ab12'.repeat(16)}`;
afterEach(closeOpened);

/** What the agetty of this machine shows above its prompt. It needs a terminal, which script(1) gives it. */
async function shownByAgetty(text: string): Promise<string> {
  const { path } = opened(await temporaryDirectory());
  await writeFile(join(path, basename(ISSUE_PATH)), text); // agetty reads only names that end with ".issue"
  const agetty = `agetty --show-issue --issue-file ${path}`;
  const { stdout } = await promisify(execFile)('script', ['-qec', agetty, '/dev/null']);
  return stdout.replaceAll('\r', '');
}

test('agetty shows the fingerprint as it is', async () => {
  const text = issueText(FINGERPRINT);
  expect(text).toContain(FINGERPRINT);
  expect(await shownByAgetty(text)).toBe(text);
});

test('agetty shows a failure without interpreting what the message contains', async () => {
  const failure = { code: 'config-x', message: 'reading \\n\\4 and \u001B[2J', fix: 'Correct `a\\b`.' };
  const shown = await shownByAgetty(failureText(failure, FINGERPRINT));
  expect(shown).toBe(failureText(failure, FINGERPRINT));
  expect(shown).toContain(`  Fix: Correct \`a/b\`.\nIts fingerprint until then:\n  ${FINGERPRINT}\n`);
});
