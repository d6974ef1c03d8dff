import { expect, test } from '@jest/globals';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { hostRequirements, requiredPackages, vmRequirements } from '../../internal/localmachines/index.ts';
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

async function listed(name: string): Promise<readonly string[]> {
  const text = await readFile(join(import.meta.dirname, '../../.ci', name), 'utf8');
  return text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
}

test('.ci/host-packages and .ci/host-packages-long list the packages of virtual machines', async () => {
  // Debian has these on every machine.
  const there = [...(await listed('host-packages')), ...(await listed('host-packages-long')), 'apt'];
  expect(there).toEqual(expect.arrayContaining([...requiredPackages(vmRequirements)]));
});

test('.ci/host-packages lists exactly the packages of local clusters, bundle builds and tests', async () => {
  const asked = [
    ...[...hostRequirements.programs, ...hostRequirements.files].map((each) => each.package),
    ...buildRequirements('amd64').map((each) => each.debianPackage),
    ...OF_TESTS,
  ];
  expect(await listed('host-packages')).toEqual([...new Set(asked)].sort());
});
