import { expect, test } from '@jest/globals';
import { join } from 'node:path';
import { elfFile, FakeBuildTools, temporaryDirectory } from '../../testing/index.ts';
import { fakeBuildContext } from '../fake-build-context.ts';
import { readNetworkTools } from './network-tools.ts';

test('readNetworkTools() extracts programs, extensions and links from packages and lists the packages', async () => {
  await using directory = await temporaryDirectory();
  const context = fakeBuildContext(new FakeBuildTools({ directory: directory.path, elf: elfFile() }));
  const { entries, source } = await readNetworkTools(context, join(directory.path, 'packages'));
  const paths = entries.map((each) => each.path);
  expect(paths).toEqual(expect.arrayContaining(['usr/sbin/xtables-nft-multi', 'bin/ip', 'bin/busybox']));
  expect(paths).toContain('usr/lib/x86_64-linux-gnu/xtables/libxt_comment.so');
  expect(entries.find((each) => each.path === 'usr/sbin/iptables')).toEqual({
    type: 'symlink',
    path: 'usr/sbin/iptables',
    target: 'xtables-nft-multi',
  });
  expect(source).toBe(
    'busybox-static 1:1.35.0-4, conntrack 1:1.4.7-1, iproute2 6.1.0-3, iptables 1.8.9-2, nftables 1.0.6-2',
  );
});

test('readNetworkTools() records the packages of which the layer has a file', async () => {
  await using directory = await temporaryDirectory();
  const context = fakeBuildContext(new FakeBuildTools({ directory: directory.path, elf: elfFile() }));
  const { entries } = await readNetworkTools(context, join(directory.path, 'packages'));
  const records = entries.filter(({ path }) => path.startsWith('var/lib/dpkg/'));
  // No file of libc6 is in the layer of this test.
  expect(records.map(({ path }) => path.split('/').at(-1))).toEqual([
    ...['busybox-static', 'conntrack', 'iproute2', 'iptables', 'nftables'],
  ]);
  const [first] = records;
  const content = first?.type === 'file' ? await Array.fromAsync(first.content()) : [];
  expect(Buffer.concat(content).toString()).toBe('Package: busybox-static\nVersion: 1:1.35.0-4\n');
});

test('readNetworkTools() runs apt on an empty system, not on the host', async () => {
  await using directory = await temporaryDirectory();
  const workshop = new FakeBuildTools({ directory: directory.path, elf: elfFile() });
  await readNetworkTools(fakeBuildContext(workshop), join(directory.path, 'packages'));
  const runs = workshop.argumentsOf('apt-get');
  expect(runs).toHaveLength(2);
  for (const args of runs) {
    for (const setting of ['Dir::State::status', 'Dir::State::lists', 'Dir::Cache::archives']) {
      expect(args.join(' ')).toContain(`${setting}=${directory.path}/packages/`);
    }
  }
  expect(runs[1]).toEqual(expect.arrayContaining(['install', '--download-only', '--no-install-recommends']));
});

test('readNetworkTools() reports the name of a library that no package contains', async () => {
  await using directory = await temporaryDirectory();
  const elf = elfFile({ libraries: ['libgone.so.1'] });
  const context = fakeBuildContext(new FakeBuildTools({ directory: directory.path, elf }));
  await expect(readNetworkTools(context, join(directory.path, 'packages'))).rejects.toMatchObject({
    code: 'bundlebuild-packages',
    message: expect.stringContaining('libgone.so.1'),
  });
});
