import type { Machine } from '../machines/shell-machine.ts';
import type { FlannelContainer } from './flannel-chart.ts';

const KEY = '/coreos.com/network';
/** Keeps a quoted text as one word of a shell. */
const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
const write = (path: string, text: string): string => `printf %s ${quoted(text)} > ${path}`;

/** Starts an etcd on the first machine, with the network configuration of the chart. There is no API server, so flannel takes its subnets from there. */
export async function startEtcd(machine: Machine, { files }: FlannelContainer): Promise<void> {
  await machine.sh(
    'setsid etcd --data-dir=/run/etcd --listen-client-urls=http://0.0.0.0:2379 --advertise-client-urls=http://192.0.2.1:2379 > /run/etcd.log 2>&1 &',
  );
  await machine.sh(`${write('/run/net-conf.json', files['net-conf.json'])}
    for _ in $(seq 15); do etcdctl put ${KEY}/config < /run/net-conf.json && exit 0; sleep 1; done
    cat /run/etcd.log; exit 1`);
}

/**
 * Writes the script that runs flannel as the container of the chart does: the same command with the same variables. Only where it gets its
 * subnet from is another place.
 */
export async function installFlannel(
  machine: Machine,
  { argv, env, files }: FlannelContainer,
): Promise<void> {
  const own = argv
    .filter((each) => each !== '--kube-subnet-mgr' && !each.startsWith('--net-config-path='))
    .concat('--etcd-endpoints=http://192.0.2.1:2379');
  const variables = Object.entries(env).map(([name, value]) => `export ${name}=${quoted(value)}`);
  const script = [...variables, `exec ${own.map(quoted).join(' ')}`, ''].join('\n');
  await machine.sh(
    [
      'mkdir -p /run/flannel',
      write('/etc/flannel/cni-conf.json', files['cni-conf.json']),
      write('/run/flannel.sh', script),
    ].join('\n'),
  );
}

/** Starts the container's process, and resolves when flannel has configured its interface. */
export async function startFlannel(machine: Machine, link: string): Promise<void> {
  await machine.sh(`rm -f /etc/cni/net.d/10-flannel.conflist
    setsid sh /run/flannel.sh > /run/flannel.log 2>&1 &
    echo $! > /run/flannel.pid
    for _ in $(seq 60); do
      if [ -e /sys/class/net/${link} ] && [ -s /run/flannel/subnet.env ] && [ -s /etc/cni/net.d/10-flannel.conflist ]; then exit 0; fi
      sleep 1
    done
    tail -n 20 /run/flannel.log; exit 1`);
}

/** Stops it as the kubelet stops a container. */
export async function stopFlannel(machine: Machine): Promise<void> {
  await machine.sh(`kill "$(cat /run/flannel.pid)"
    for _ in $(seq 60); do kill -0 "$(cat /run/flannel.pid)" || exit 0; sleep 1; done; exit 1`);
}

/** The addresses of a pod. */
export interface Pod {
  readonly ipv4: string;
  readonly ipv6: string;
}

/** Creates a network namespace with the addresses and the MTU that flannel gives to a pod. */
export async function createPod(machine: Machine): Promise<Pod> {
  const output = await machine.sh(`. /run/flannel/subnet.env
    pod() { /bin/ip netns exec pod "$@"; }
    address4=\${FLANNEL_SUBNET%.1/*}.2 address6=\${FLANNEL_IPV6_SUBNET%1/*}2
    /bin/ip netns add pod
    /bin/ip link add pod0 mtu $FLANNEL_MTU type veth peer name eth0 mtu $FLANNEL_MTU netns pod
    /bin/ip address add $FLANNEL_SUBNET dev pod0
    /bin/ip address add $FLANNEL_IPV6_SUBNET dev pod0 nodad
    /bin/ip link set pod0 up
    pod /bin/ip link set lo up
    pod /bin/ip link set eth0 up
    pod /bin/ip address add $address4/24 dev eth0
    pod /bin/ip address add $address6/64 dev eth0 nodad
    pod /bin/ip -4 route add default via \${FLANNEL_SUBNET%/*}
    pod /bin/ip -6 route add default via \${FLANNEL_IPV6_SUBNET%/*}
    echo "pod $address4 $address6"`);
  const [, ipv4 = '', ipv6 = ''] = /^pod (\S+) (\S+)$/m.exec(output) ?? [];
  return { ipv4, ipv6 };
}

const PORT = 7000;
const LINES = 500;

/** What a pod sends. */
export interface Message {
  /** Of the pod of the other machine. */
  readonly address: string;
  readonly text: string;
  readonly withinSeconds: number;
}

/**
 * Sends a text many times from the pod of one machine to that of the other one: packets of full size. Returns whether all of it
 * has arrived within the time.
 */
export async function send(
  from: Machine,
  to: Machine,
  { address, text, withinSeconds }: Message,
): Promise<boolean> {
  // With an input that ends, nc would close its side at once, and the other side would stop sending.
  await to.sh(`[ -p /run/hold ] || mkfifo /run/hold
    setsid /bin/ip netns exec pod nc -l -p ${PORT} 0<> /run/hold > /run/arrived 2> /dev/null &
    echo $! > /run/nc.pid`);
  // The other side may not listen yet.
  const sending = `for _ in $(seq ${withinSeconds}); do
    yes ${text} | head -n ${LINES} | /bin/ip netns exec pod nc -w ${withinSeconds} ${address} ${PORT} && break
    sleep 1
  done`;
  await from.sh(`setsid sh -c ${quoted(sending)} > /dev/null 2>&1 &
    echo $! > /run/send.pid`);
  const { output } = await to.try(`count() { grep -c -F ${text} /run/arrived; }
    for _ in $(seq ${withinSeconds}); do [ "$(count)" = ${LINES} ] && break; sleep 1; done
    kill "$(cat /run/nc.pid)"; count`);
  await from.try('kill -- -"$(cat /run/send.pid)"');
  return output.split('\n').at(-1) === String(LINES);
}
