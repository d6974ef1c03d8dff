import { expect, test } from '@jest/globals';
import { elfFile, FakeBuildTools, temporaryDirectory } from '../testing/index.ts';
import { fakeBuildContext } from './fake-build-context.ts';
import { buildRequirements, checkRequirements } from './build-requirements.ts';

const ALL = { cgo: true, packages: true };

test('checkRequirements() passes when nothing is missing', async () => {
  await using directory = await temporaryDirectory();
  const context = fakeBuildContext(new FakeBuildTools({ directory: directory.path, elf: elfFile() }));
  await expect(checkRequirements(context, ALL)).resolves.toBeUndefined();
});

test('checkRequirements() names everything that is missing and one command that installs it', async () => {
  await using directory = await temporaryDirectory();
  const workshop = new FakeBuildTools({ directory: directory.path, elf: elfFile() });
  for (const each of ['gcc', 'libseccomp.a', 'dpkg-deb']) workshop.lacks.add(each);
  await expect(checkRequirements(fakeBuildContext(workshop), ALL)).rejects.toMatchObject({
    code: 'bundlebuild-requirements',
    exit: 'preflight',
    message: expect.stringMatching(/gcc .*libseccomp\.a .*dpkg-deb /),
    fix: expect.stringContaining('apt-get install dpkg gcc libseccomp-dev'),
    details: { packages: ['dpkg', 'gcc', 'libseccomp-dev'] },
  });
});

test('checkRequirements() requires no compiler when nothing is compiled', async () => {
  await using directory = await temporaryDirectory();
  const workshop = new FakeBuildTools({ directory: directory.path, elf: elfFile() });
  for (const each of ['gcc', 'apt-get']) workshop.lacks.add(each);
  await expect(
    checkRequirements(fakeBuildContext(workshop), { cgo: false, packages: false }),
  ).resolves.toBeUndefined();
});

test.each(['amd64', 'arm64'] as const)(
  'every build requirement on %s names its package and its purpose',
  (architecture) => {
    for (const each of buildRequirements(architecture)) {
      expect(each.debianPackage).toMatch(/^[a-z0-9.+-]+$/);
      expect(each.why).not.toBe('');
    }
  },
);
