import { expect, test } from '@jest/globals';
import { MemoryFiles } from '../../testing/index.ts';
import type { HostPorts } from '../host/host-ports.ts';
import { dhcpArgv, writeDhcpHost } from './dhcp-server.ts';

test('dhcpArgv() serves machines with a file only, in the network of their cluster only', () => {
  const argv = dhcpArgv({ number: 7 }, '/d/mini/a/dhcp');
  expect(argv.slice(0, 4)).toEqual(['nsenter', '--net=/run/cluster-mini/clu7/switch', '--', 'dnsmasq']);
  expect(argv).toContain('--interface=sw');
  expect(argv).toContain('--port=0');
  expect(argv).toContain('--dhcp-range=198.18.7.0,static,255.255.255.0,infinite');
  expect(argv).toContain('--dhcp-hostsdir=/d/mini/a/dhcp/hosts');
  expect(argv).toContain('--dhcp-option=option:router,198.18.7.254');
});

test('writeDhcpHost() gives the network card of a machine its address, in a file that appears as a whole', async () => {
  const files = new MemoryFiles();
  await files.makeDirectory('/d');
  const host = { files } as unknown as HostPorts;
  await writeDhcpHost(host, '/d', { name: 'n1', address: '198.18.7.11' });
  expect(await files.list('/d')).toEqual(['hosts']);
  expect(Buffer.from((await files.read('/d/hosts/n1', 100)) ?? []).toString()).toBe(
    '02:63:c6:12:07:0b,198.18.7.11,n1,infinite\n',
  );
});
