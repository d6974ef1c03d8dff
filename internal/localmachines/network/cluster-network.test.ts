import { describe, expect, test } from '@jest/globals';
import {
  hostAddress,
  isLinkGone,
  linkAddress,
  namespaceFile,
  nextAddress,
  nodeCommands,
  otherAddress,
  routedNumbers,
  switchCommands,
} from './cluster-network.ts';
import { chooseNumber } from './cluster-numbers.ts';

const network = { number: 7 };
const linesOf = (commands: ReturnType<typeof nodeCommands>): readonly string[] =>
  commands.map((argv) => argv.slice(3).join(' '));

describe('choosing a network', () => {
  test('takes the lowest number that no cluster has claimed and the host does not route', () => {
    expect(chooseNumber(new Set(), new Set())).toBe(1);
    expect(chooseNumber(new Set([1, 3]), new Set([2]))).toBe(4);
  });

  test('fails when all numbers are in use', () => {
    const all = new Set(Array.from({ length: 250 }, (_, at) => at + 1));
    expect(() => chooseNumber(all, new Set())).toThrow(
      expect.objectContaining({ code: 'localmachines-no-network' }),
    );
  });

  test('reads the numbers that the host routes from the output of ip', () => {
    const routes = [
      { dst: 'default', gateway: '192.0.2.1' },
      { dst: '198.18.7.0/24', dev: 'clu7' },
      { type: 'local', dst: '198.18.9.1' },
      { dst: '198.19.4.0/24' },
      {},
    ];
    expect([...routedNumbers(JSON.stringify(routes))]).toEqual([7, 9]);
  });
});

describe('addresses', () => {
  test('nextAddress() starts at .11 and fills gaps first', () => {
    expect(nextAddress(network, [])).toBe('198.18.7.11');
    expect(nextAddress(network, ['198.18.7.11', '198.18.7.13'])).toBe('198.18.7.12');
    expect(nextAddress(network, ['2001:2:0:7::b', '198.18.7.12'], 'IPv6')).toBe('2001:2:0:7::d');
  });

  test('nextAddress() never returns the address of the gateway', () => {
    const taken = Array.from({ length: 240 }, (_, at) => `198.18.7.${at + 11}`);
    expect(() => nextAddress(network, taken)).toThrow(
      expect.objectContaining({ code: 'localmachines-no-network' }),
    );
  });
});

describe('network commands', () => {
  test.each([
    { name: 'ip deleted it', exitCode: 0, stderr: '', want: true },
    { name: 'ip did not find it', exitCode: 1, stderr: 'Cannot find device "p12"', want: true },
    {
      name: 'the kernel removed it meanwhile',
      ...{ exitCode: 2, stderr: 'RTNETLINK answers: No such device', want: true },
    },
    {
      name: 'the kernel refused',
      ...{ exitCode: 2, stderr: 'RTNETLINK answers: Operation not permitted', want: false },
    },
  ])('isLinkGone() is $want when $name', ({ want, ...result }) => {
    expect(isLinkGone(result)).toBe(want);
  });

  test('create exactly one link on the host, named after the cluster', () => {
    const onHost = switchCommands(network).filter(([program]) => program === 'ip');
    expect(onHost.map((argv) => argv.join(' '))).toEqual([
      'ip link add clu7 address 02:63:c6:12:07:01 type veth peer name host netns /run/cluster-mini/clu7/switch',
      `ip address add ${hostAddress(network)}/24 dev clu7`,
      'ip link set clu7 up',
    ]);
  });

  test('change nothing on the host when a node is connected', () => {
    const namespaces = [namespaceFile(network, undefined), namespaceFile(network, 'n1')];
    for (const [program, namespace] of nodeCommands(network, { name: 'n1', address: '198.18.7.11' })) {
      expect(program).toBe('nsenter');
      expect(namespaces).toContain(namespace?.replace('--net=', ''));
    }
  });

  test('give each end of a link the same link-layer address after a power cycle', () => {
    const node = { name: 'n1', address: '198.18.7.11' };
    const given = [...switchCommands(network), ...nodeCommands(network, node)].flatMap((argv) => {
      const at = argv.indexOf('address');
      return argv.includes('link') && at > 0 ? [argv[at + 1]] : [];
    });
    expect(given).toEqual(['198.18.7.254', '198.18.7.1', '198.18.7.11'].map(linkAddress));
    expect(new Set(given).size).toBe(3);
    // Unicast and locally administered: the two lowest bits of the first byte are 0 and 1.
    for (const address of given) expect(Number.parseInt(address?.slice(0, 2) ?? '', 16) & 3).toBe(2);
  });

  test('give a node of a cluster with both families an IPv6 address with the same number', () => {
    const node = { name: 'n1', address: '198.18.7.11', ipv6Address: otherAddress(network, '198.18.7.11') };
    expect(node.ipv6Address).toBe('2001:2:0:7::b');
    const lines = linesOf(nodeCommands(network, node));
    expect(lines).toContain('ip address add 198.18.7.11/24 dev eth0');
    expect(lines).toContain('ip -6 address add 2001:2:0:7::b/64 dev eth0 nodad');
    expect(lines).toContain('ip -6 route add default via 2001:2:0:7::fe');
    const reversed = { name: 'n1', address: '2001:2:0:7::b', ipv4Address: '198.18.7.11' };
    expect(nodeCommands(network, reversed)).toEqual(nodeCommands(network, node));
    const { ipv6Address: _, ...without } = node;
    expect(nodeCommands(network, without).flat().join(' ')).not.toMatch(/-6|ipv6/);
  });

  test('give a node of a cluster with IPv6 only no IPv4 address, and the host an IPv6 address', () => {
    const commands = nodeCommands(network, { name: 'n1', address: '2001:2:0:7::b' });
    expect(linesOf(commands)).toContain('ip -6 address add 2001:2:0:7::b/64 dev eth0 nodad');
    expect(linesOf(commands).join('\n')).not.toMatch(/ 198\./);
    expect(commands.filter(([program]) => program !== 'nsenter').map((argv) => argv.join(' '))).toEqual([
      'sh -c echo 0 > /proc/sys/net/ipv6/conf/clu7/disable_ipv6',
      'ip -6 address replace 2001:2:0:7::1/64 dev clu7 nodad',
    ]);
  });

  test('a node with the name "switch" has its own namespace', () => {
    expect(namespaceFile(network, 'switch')).not.toBe(namespaceFile(network, undefined));
  });
});
