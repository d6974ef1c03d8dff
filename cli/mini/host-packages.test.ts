import { expect, test } from '@jest/globals';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { hostRequirements } from '../../internal/localmachines/index.ts';
import { buildRequirements } from '../../internal/bundlebuild/index.ts';

/**
 * Packages that only tests need: they read the RPM of the build (.ci/build/rpm.ts), check manual pages (.ci/build/man.ts),
 * sign an apt repository (cli/package), complete command lines (cli/app/completion.ts),
 * and open pages in a browser (cli/dashboard/web/page.browser.itest.ts).
 */
const OF_TESTS = [
  'chromium-headless-shell',
  'cryptsetup-bin',
  'fish',
  'fonts-dejavu-core',
  'gpg',
  'gpg-agent',
  'mandoc',
  'rpm',
  'zsh',
];

test('.ci/host-packages lists exactly the packages of local clusters, bundle builds and tests', async () => {
  const text = await readFile(join(import.meta.dirname, '../../.ci/host-packages'), 'utf8');
  const listed = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  const asked = [
    ...[...hostRequirements.programs, ...hostRequirements.files].map((each) => each.package),
    ...buildRequirements('amd64').map((each) => each.debianPackage),
    ...OF_TESTS,
  ];
  expect(listed).toEqual([...new Set(asked)].sort());
});
