import { expect, test } from '@jest/globals';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { temporaryDirectory } from '../../../internal/testing/index.ts';
import { checkHost, type Host } from './check-host.ts';

/** A machine with QEMU in the last directory of its search path, and a bundle. */
async function prepareHost(directory: string): Promise<Host> {
  const [path, cache] = [join(directory, 'bin'), join(directory, 'cache')];
  await mkdir(join(cache, 'bundles'), { recursive: true });
  await writeFile(join(cache, 'bundles/kubernetes-v1.json'), '{}');
  await mkdir(path);
  await writeFile(join(path, 'qemu-system-x86_64'), '', { mode: 0o755 });
  return { path: `/nonexistent:${path}`, cache };
}

test('checkHost() accepts a machine with QEMU and a bundle', async () => {
  await using directory = await temporaryDirectory();
  await expect(checkHost(await prepareHost(directory.path))).resolves.toBeUndefined();
});

test('checkHost() names the command that installs QEMU', async () => {
  await using directory = await temporaryDirectory();
  const host = await prepareHost(directory.path);
  await expect(checkHost({ ...host, path: '/nonexistent' })).rejects.toThrow(
    'the suite disk needs qemu-system-x86_64 (`.ci/setup long` installs it)',
  );
});

test('checkHost() names the command that builds a bundle', async () => {
  await using directory = await temporaryDirectory();
  const host = await prepareHost(directory.path);
  await expect(checkHost({ ...host, cache: '/nonexistent' })).rejects.toThrow(
    'the suite disk needs a Kubernetes bundle in /nonexistent (`.ci/setup bundle` builds it)',
  );
});

test('checkHost() names everything that is missing at once', async () => {
  const checked = checkHost({ path: '/nonexistent', cache: '/nonexistent' });
  await expect(checked).rejects.toThrow(/setup long.* and .*setup bundle/);
});
