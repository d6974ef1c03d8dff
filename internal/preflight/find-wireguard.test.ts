import { expect, test } from '@jest/globals';
import { MemoryFiles } from '../testing/host/memory-files.ts';
import { findWireguard } from './find-wireguard.ts';

const RELEASE = '6.1.0-41-cloud-amd64';
const MODULES = `/lib/modules/${RELEASE}`;

test.each([
  {
    name: 'the module is loaded or built in',
    files: { '/sys/module/wireguard/version': '1.0.0\n' },
    want: 'loaded',
  },
  {
    name: 'modprobe knows the module',
    files: {
      [`${MODULES}/modules.dep`]:
        'kernel/drivers/net/veth.ko:\nkernel/drivers/net/wireguard/wireguard.ko: kernel/net/ipv4/udp_tunnel.ko\n',
    },
    want: 'loadable',
  },
  {
    name: 'the module is compressed, or not one of the kernel itself',
    files: {
      [`${MODULES}/modules.dep`]: 'updates/dkms/wireguard.ko.zst: kernel/net/ipv4/udp_tunnel.ko.zst\n',
    },
    want: 'loadable',
  },
  {
    name: 'the list of what is built in has it',
    files: { [`${MODULES}/modules.builtin`]: 'kernel/drivers/net/wireguard/wireguard.ko\n' },
    want: 'loadable',
  },
  { name: 'the kernel has no modules', files: {}, want: 'missing' },
  {
    name: 'other modules have a similar name',
    files: {
      [`${MODULES}/modules.dep`]:
        'extra/not-wireguard.ko:\nextra/wireguard.kobold:\nextra/a.ko: extra/wireguard.ko\n',
    },
    want: 'missing',
  },
  {
    name: 'only another kernel has it',
    files: { '/lib/modules/5.4.0/modules.dep': 'kernel/drivers/net/wireguard/wireguard.ko:\n' },
    want: 'missing',
  },
])('findWireguard() says $want if $name', async ({ files, want }) => {
  const memory = new MemoryFiles();
  const all: Readonly<Record<string, string>> = { '/proc/sys/kernel/osrelease': `${RELEASE}\n`, ...files };
  for (const [path, text] of Object.entries(all)) {
    await memory.makeDirectory(path.slice(0, path.lastIndexOf('/')));
    await memory.writeAtomic(path, text);
  }
  expect(await findWireguard(memory)).toBe(want);
});
