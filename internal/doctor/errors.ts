import { REFRESH_COLLATERAL } from '../attestation/x509/index.ts';
import { defineErrors, errorClass, fault, retryable } from '../errors/index.ts';

/**
 * One error code for each check of a cluster, and the codes for files with saved facts. A warning of a check has the
 * same code and fix as its error.
 */
export const doctorErrors = defineErrors({
  'doctor-clock': retryable.operator.clock(
    'The clock of a node differs from the clock of the workstation, or of the control plane that receives its heartbeats: certificates look expired, or not yet valid.',
    'Synchronize the wrong clock with a time service (systemd-timesyncd or chrony). If all control planes differ by the same time, the clock of the workstation is wrong.',
  ),
  'doctor-credentials': retryable.operator.unhealthy(
    'A credential of this workspace has expired, or expires soon.',
    'Run `cluster kubeconfig --renew`. Each command that reaches a curator also renews your operator certificate if it is due.',
  ),
  'doctor-host-name': retryable.operator.unhealthy(
    'This workstation does not find the address of a host name that the workspace uses: the server of the kubeconfig, or a control plane.',
    'Look at /etc/resolv.conf and /etc/hosts of the workstation, and at the record of the name. If the name has changed, write the new one with `cluster kubeconfig --server URL`.',
  ),
  'doctor-kubeconfig': retryable.operator.unhealthy(
    'The server that the kubeconfig of this workspace names does not serve: kubectl and helm cannot use it.',
    'If the machine is off or removed, name another control plane or a load balancer: `cluster kubeconfig --server URL`.',
  ),
  'doctor-etcd-full': retryable.operator.unhealthy(
    'An etcd database has used up its quota and refuses every write.',
    'Run `cluster recover space` as root on a control plane.',
  ),
  'doctor-etcd-corrupt': retryable.operator.unhealthy(
    'The alarm CORRUPT of an etcd is active: somebody has enabled the corruption checks of etcd, they have found members with different content, and etcd refuses every read and write.',
    'Read "A member of etcd has other content" in docs/recovery.md: take the member out that differs, and then clear the alarm with `etcdctl alarm disarm` as root on a control plane.',
  ),
  'doctor-etcd-quorum': retryable.operator.unhealthy(
    'An etcd cluster has no quorum, or tolerates fewer failures than with all of its voters.',
    'Start the control planes that are down. On those that run, look at `systemctl status cluster-etcd-state cluster-etcd-kubernetes` and start what was stopped. If machines are lost for good, follow `cluster help recover`; if a quorum is left, remove the lost control plane with `cluster node remove NODE --lost`.',
  ),
  'doctor-etcd-content': retryable.operator.unhealthy(
    'A member of an etcd has other content than the others, although all have applied the same changes: its disk or its memory has changed something. Or its members were not compared for hours.',
    'Take a backup from another control plane (`cluster backup create --node NAME --to FILE`), take the member out with `cluster node set-role NODE --worker`, and then give NODE its roles again: it joins with an empty etcd. Replace the machine if this happens again. If the members were only not compared, look for the runnable `etcd-content` in `cluster node show` of each control plane.',
  ),
  'doctor-node-silent': retryable.operator.unhealthy(
    'A node sends no heartbeats: it is off, cut off from the control planes, or its agent is stopped.',
    'Start the machine, and look at `systemctl status bootstrapper` on it. If the machine is lost for good, run `cluster node remove NODE --lost`.',
  ),
  'doctor-disk-space': retryable.operator.unhealthy(
    'A file system of a node is nearly full. The kubelet evicts pods, and etcd stops when nothing is left.',
    'Free space on the file system, or enlarge it.',
  ),
  'doctor-disk-growth': retryable.operator.unhealthy(
    'A file system of a node is full within days, if it goes on filling as it did in the last days.',
    'Find out what grows (`du -x` on the node shows it), free space, or enlarge the file system.',
  ),
  'doctor-disk-inodes': retryable.operator.unhealthy(
    'A file system of a node has nearly no inodes left: no file can be created, although there is space.',
    'Remove directories with many small files, or create the file system with more inodes.',
  ),
  'doctor-etcd-member': retryable.operator.unhealthy(
    'An etcd member of a control plane does not respond on its node, or sees no leader.',
    'Look at `systemctl status cluster-etcd-state cluster-etcd-kubernetes` and at the disk of the node. The agent restarts a member that has ended.',
  ),
  'doctor-curator': retryable.operator.unhealthy(
    'The curator of a control plane does not serve this workstation.',
    'Look at `systemctl status cluster-joinservice` on the node, and at firewalls on port 9091.',
  ),
  'doctor-join-service': retryable.operator.unhealthy(
    'The join service of a control plane accepts no connection of this workstation: machines may not be able to join through it.',
    'Look at `systemctl status cluster-joinservice` on the node, and at firewalls on port 9090, also between machines that are to join and the node.',
  ),
  'doctor-api-server': retryable.operator.unhealthy(
    'The API server of a control plane does not serve this workstation.',
    'Look at `cluster node show NODE`, at the logs of kube-apiserver below /var/log/pods on the node, and at firewalls on port 6443.',
  ),
  'doctor-control-plane': retryable.operator.unhealthy(
    'A component of the Kubernetes control plane is not ready, as the agent of its node reports.',
    'Look at `cluster node show NODE`, and at the logs of the component below /var/log/pods on the node.',
  ),
  'doctor-kubernetes': retryable.operator.unhealthy(
    'The Kubernetes API could not be read, so the checks that need it could not be made.',
    'Fix the problems that the doctor reports before this one. If this is the first problem, check the kubeconfig of the workspace with `cluster kubeconfig --renew`.',
  ),
  'doctor-kubelet': retryable.operator.unhealthy(
    'The kubelet of a node does not respond, or reports that the node is not ready.',
    'Look at `systemctl status kubelet` and `journalctl -u kubelet` on the node.',
  ),
  'doctor-machine': retryable.operator.unhealthy(
    'A setting of the machine of a node is not as Kubernetes needs it: a read-only file system, a kernel parameter or module, swap, cgroups, or name servers.',
    'Run `cluster preflight --fix` on the machine, and correct what it cannot correct.',
  ),
  'doctor-pod-network': retryable.operator.unhealthy(
    'Pods on a node do not reach pods on other nodes: the nodes do not answer each other through the network chart.',
    'Permit UDP port 8472 between all nodes, in the firewalls of the machines and of the networks between them.',
  ),
  'doctor-mtu': retryable.operator.unhealthy(
    'Small packets pass between two nodes, and full-size packets are lost: connections of pods open and then hang.',
    'A network between the machines carries smaller packets than their interfaces send (MTU): a tunnel or a VPN, for example. Let it carry the MTU of the machines, or set the MTU of the interfaces of all machines to what it carries (`ping -M do -s SIZE` from one machine to the other finds it: SIZE + 28 bytes, by IPv6 SIZE + 48), then restart each node with `cluster node reboot`. The network of pods follows with 50 bytes less.',
  ),
  'doctor-node-latency': retryable.operator.unhealthy(
    'Packets between two nodes take long: requests between pods on them are slow.',
    'Run `ping` between the addresses of the two machines. If it is slow too, look at the network between them: a VPN, a full link, lost packets, or another region. If it is fast, NODE is overloaded: look at its load with `top`. If the distance is wanted, keep pods near each other that call each other often, for example with `trafficDistribution` of their services.',
  ),
  'doctor-host-service': retryable.operator.unhealthy(
    'A service that a node needs, such as the kubelet or containerd, does not run on it, as the agent of the node reports.',
    'Correct the cause that is named; start a service that was stopped with `systemctl start UNIT` on the machine. `cluster node logs NODE --unit UNIT` shows the whole log of the service (kubelet, cluster-containerd, cluster-etcd-state, cluster-etcd-kubernetes); drop-ins below /etc/systemd/system change how systemd starts it.',
  ),
  'doctor-node-pressure': retryable.operator.unhealthy(
    'The kubelet reports that its node is short of memory, disk space or process ids, and evicts pods.',
    'Move pods to another node, or give the machine more of the resource that the condition names.',
  ),
  'doctor-node-error': retryable.operator.unhealthy(
    'The agent of a node reports an error.',
    'Run `cluster help errors CODE` with the code of the reported error, and `cluster node logs NODE`.',
  ),
  'doctor-old-disk': retryable.operator.unhealthy(
    'A node found that its disk is an old copy, e.g. a restored snapshot. What runs goes on, but the node gives nobody anything new until an owner signs the records again.',
    'Find out who restored the disk. If it was you, let an owner run `cluster sign`; otherwise remove the node with `cluster node remove NODE --lost`.',
  ),
  'doctor-removal-unmerged': retryable.operator.unhealthy(
    'A worker that a restore kept knows that a member was removed after the backup was taken. The backup does not know it, and the word of one node removes no member.',
    'Decide whether the removal was meant. If it was, run `cluster node remove NODE --lost` for the member; if the machine is to stay, reset it with `cluster node reset NODE` and let it join again.',
  ),
  'doctor-balancer': retryable.operator.unhealthy(
    'The balancer of a node does not reach an API server, or sees it as not ready. Other API servers serve the node.',
    'If the API server serves the workstation, check firewalls and routes between the two nodes (port 6443).',
  ),
  'doctor-network': retryable.operator.unhealthy(
    'A node has no ready pod of the network chart: pods on this node cannot reach pods on other nodes.',
    'Look at `kubectl -n kube-flannel get pods -o wide` and at the logs of the pod. With `networking.backend: wireguard`, its node needs a kernel with WireGuard.',
  ),
  'doctor-proxy': retryable.operator.unhealthy(
    'A node has no ready kube-proxy: pods on this node cannot reach services.',
    'Look at `kubectl -n kube-system get pods -l k8s-app=kube-proxy -o wide` and at the logs of the pod.',
  ),
  'doctor-dns': retryable.operator.unhealthy(
    'Too few CoreDNS pods are ready, or one of them fails: pods cannot resolve names, or soon cannot.',
    'Look at the events and logs of the pods, and at the ConfigMap `coredns` in `kube-system`. Without pods, scale the deployment `coredns` to two replicas.',
  ),
  'doctor-name-lookup': retryable.operator.unhealthy(
    'The DNS of the cluster does not answer a node, so pods on it cannot resolve names.',
    'If it answers other nodes, look at kube-proxy on this node (`kubectl -n kube-system get pods -l k8s-app=kube-proxy -o wide`) and at firewalls for UDP ports 53 and 8472 (with `networking.backend: wireguard`, 51820 for IPv4 and 51821 for IPv6). If it answers none, look at the pods of CoreDNS and at the ConfigMap `coredns` in `kube-system`.',
  ),
  'doctor-webhook': retryable.operator.unhealthy(
    'API servers ask a webhook before they admit an object, and no pod is ready behind its service.',
    'Start the program behind the service. If it is gone for good, delete its ValidatingWebhookConfiguration or MutatingWebhookConfiguration with kubectl.',
  ),
  'doctor-api-service': retryable.operator.unhealthy(
    'A part of the Kubernetes API is answered by another server, which is not available. The deletion of namespaces waits for it too.',
    'Start the program behind the API service. If it is gone for good, delete the API service: `kubectl delete apiservice NAME`.',
  ),
  'doctor-deployment': retryable.operator.unhealthy(
    'Kubernetes cannot create all pods of a deployment: a quota, a webhook or a policy refuses them.',
    'Correct what the cause names, for example with `kubectl -n NAMESPACE describe resourcequota`. Kubernetes tries again by itself.',
  ),
  'doctor-namespace': retryable.operator.unhealthy(
    'A namespace is being deleted, and objects in it are left.',
    'Start the program that removes the finalizers named in the cause. If it is gone for good, remove the finalizers from the objects with `kubectl edit`.',
  ),
  'doctor-pods': retryable.operator.unhealthy(
    'Pods are not ready.',
    'Look at `kubectl -n NAMESPACE describe pod POD` and at the logs of its containers.',
  ),
  'doctor-certificate': retryable.operator.unhealthy(
    'A certificate on a node has expired, or its renewal is failing.',
    'Look at `cluster node logs NODE` for the reason of the failed renewal. The agent tries again until it succeeds.',
  ),
  'doctor-ca': retryable.operator.unhealthy(
    'A CA of the cluster has expired, or expires soon.',
    'Run `cluster keys rotate`: the rotation replaces the CAs while the cluster runs.',
  ),
  'doctor-keys': retryable.operator.unhealthy(
    'A rotation of the shared keys does not proceed.',
    'Look at `cluster keys show`. If an owner must sign the new keys, run `cluster keys rotate` as an owner; if an earlier version made the rotation, run `cluster sign`. Start the control planes for which the rotation waits, or remove them with `cluster node remove NODE --lost`.',
  ),
  'doctor-servers-ca': retryable.operator.unhealthy(
    'Some pods were started before a rotation of the shared keys replaced the CA of API servers. A program that reads the CA only at its start still trusts the old CA, and so accepts a server that was forged with the old key.',
    'Restart these pods before the next rotation: `kubectl -n NAMESPACE rollout restart deployment,daemonset,statefulset`, and delete pods that no controller owns.',
  ),
  'doctor-document': retryable.operator.unhealthy(
    'A document that an owner has signed has expired, or expires soon. An expired document admits nothing new.',
    'Run `cluster sign` as an owner.',
  ),
  'doctor-collateral': retryable.operator.unhealthy(
    'Collateral of AMD or Intel has expired, or expires soon: machines whose evidence needs it are refused.',
    REFRESH_COLLATERAL,
  ),
  'doctor-backup': retryable.operator.unhealthy(
    'The control planes have not taken and proved a backup for longer than the schedule says, or the last attempt failed.',
    'Look at the last failure with `cluster backup schedule show`. Control planes try again by themselves. Until then, take one with `cluster backup create --into DIRECTORY --prove`; the problem stays until a scheduled one is proved.',
  ),
  'doctor-backup-schedule': retryable.operator.unhealthy(
    'The owner’s signature on the schedule of backups has expired or expires soon, or the schedule does not name every control plane.',
    'Sign the schedule again: run the command that `cluster backup schedule show` prints.',
  ),
  'doctor-backup-proof': retryable.operator.unhealthy(
    'A control plane proved a backup on its unencrypted state disk, because it had too little memory or could not mount it. The data of the proof was deleted afterwards, but a reader of the disk may find it, as well as the database of etcd itself.',
    'Give the control plane more memory, or provision it with an encrypted state disk (docs/decisions/state-disk.md).',
  ),
  'doctor-backup-copies': retryable.operator.unhealthy(
    'A control plane does not copy its backups to the directory or the store that the schedule names, so they are on its own disk only.',
    'Correct what the cause names: `cluster help errors CODE` explains its code. Mount the file system of a directory on the node; for a store, look at its address, space and access key. If the node reports no copies, upgrade its agent. The node copies what is missing within a minute.',
  ),
  'doctor-join': retryable.operator.unhealthy(
    'A machine that asked to join was refused within the last day.',
    'Run `cluster explain` with the name of the machine, and `cluster help errors CODE` with the code of the refusal.',
  ),
  'doctor-etcd-learner': retryable.operator.unhealthy(
    'A new etcd member is not promoted to a voter.',
    'Look at `cluster node show NODE`: the learner must catch up with the leader. A slow disk or network prevents it.',
  ),
  'doctor-etcd-size': retryable.operator.unhealthy(
    'An etcd database is near its quota. When the quota is used up, etcd refuses every write.',
    'Find out which objects grow (`kubectl get --raw /metrics | grep apiserver_resource_objects`) and delete what is not needed.',
  ),
  'doctor-etcd-unused': retryable.operator.unhealthy(
    'Most pages of an etcd database are unused: the database takes more space on the disk and in the quota than its content needs.',
    'Run `cluster recover space` as root on a control plane.',
  ),
  'doctor-kubernetes-support': retryable.operator.unhealthy(
    'The Kubernetes project ends, or has ended, its support of the minor version that a node runs: faults in it are not corrected any more.',
    'Create a cluster with a newer version of Kubernetes and move the workloads to it. This release cannot upgrade Kubernetes on a running cluster.',
  ),
  'doctor-machine-network': retryable.operator.unhealthy(
    'The machine of a node does not have its address, or does not reach the other control planes.',
    'Look at `ip address`, `ip route` and the firewall of the machine. If its network is right, start the other control planes.',
  ),
  'doctor-machine-requirements': retryable.operator.unhealthy(
    'The machine of a node does not meet a requirement that `cluster preflight` checks.',
    'Run `cluster preflight` on the machine: it prints the fix of each failed check, and --fix applies some of them.',
  ),
  'doctor-machine-units': retryable.operator.unhealthy(
    'A systemd unit that the node needs does not run.',
    'Look at `systemctl status UNIT` and `journalctl -u UNIT` on the machine. The agent starts the other units of the node: start `bootstrapper` first if it does not run.',
  ),
  'doctor-disk-clear': retryable.operator.unhealthy(
    'A node has an encrypted disk, but a directory with secrets or data of the node is in the clear on another disk.',
    'Move the directory to the encrypted file system, then overwrite the old copy, because it contains keys.',
  ),
  'doctor-fsync': retryable.operator.unhealthy(
    'The disk of an etcd member is slow: every write of the cluster waits for it.',
    'Move the state directory to a local SSD, and let no other program write much to the same disk.',
  ),
  'doctor-latency': retryable.operator.unhealthy(
    'The round trip between two etcd members takes longer than their heartbeat interval.',
    'Place the control planes in one region, and check the network between them for lost packets.',
  ),
  'doctor-agent': retryable.operator.unhealthy(
    'A part of the agent on a node has ended and was not restarted.',
    'Look at `cluster node show NODE` and `cluster node logs NODE`.',
  ),
  'doctor-evidence': retryable.operator.unhealthy(
    'Fresh evidence of a node is refused: its registers, its machine or its keys are not what the policy and the record expect.',
    'Run `cluster verify NODE`: it shows every register and the fix of the refusal. If the software was changed on purpose, run `cluster attest measure` on the machine and add the values to the reference values. Otherwise cordon the node (`cluster node cordon NODE`) and find out what changed on it.',
  ),
  'doctor-budget': retryable.operator.unhealthy(
    'A PodDisruptionBudget permits no eviction although all of its pods are healthy: a drain of their nodes would wait for ever.',
    'Give the workload more replicas, or lower `minAvailable` of the budget.',
  ),
  'doctor-chart': retryable.operator.unhealthy(
    'A chart that was installed from this workspace is not deployed in the cluster, or not as cluster.yaml says.',
    'Run `cluster init`: it installs the chart as cluster.yaml says. If the chart was changed on purpose, make the same change in cluster.yaml first. `helm history` shows the revisions of the release.',
  ),
  'doctor-skew': retryable.operator.unhealthy(
    'The versions of two programs of the cluster differ by more than is supported.',
    'Upgrade the older part: CLI and agents may differ by one minor version, a kubelet may be up to three minors older than the API server and never newer.',
  ),
  'doctor-change-unsafe': fault.operator.precondition(
    'The doctor finds a problem that this change of the members of etcd would make worse. Nothing was changed.',
    'Run `cluster doctor` and cure the problem that the message names first. If this change is a part of the cure, add `--skip-checks`.',
  ),
  'doctor-backup-damaged': fault.operator.precondition(
    'The etcd members of the control plane differ from those of the others, so that a backup of them would hold wrong data. No backup was taken.',
    'Let another control plane take the backup: leave out `--node`. To keep a copy of the differing data, add `--skip-checks`.',
  ),
  'doctor-facts-too-large': fault.operator.usage(
    'The file of facts is too large to be one that `cluster doctor --save-facts` has written.',
    'Name the file that `cluster doctor --save-facts FILE` has written.',
  ),
  'doctor-facts-version': fault.operator.usage(
    'The file of facts was written by a release with another format.',
    'Run `cluster doctor --facts FILE` with the release that wrote the file, or save the facts again with this release.',
  ),
  'doctor-facts-malformed': fault.operator.usage(
    'The file of facts is damaged, or was not written by `cluster doctor --save-facts`.',
    'Save the facts again with `cluster doctor --save-facts FILE`.',
  ),
  'doctor-facts-missing': fault.operator.usage(
    'The file of facts does not exist.',
    'Check the path. `cluster doctor --save-facts FILE` writes such a file.',
  ),
  'doctor-node-unknown': fault.operator.usage(
    'The cluster has no node of this name.',
    'Run `cluster node ls` for the names of all nodes.',
  ),
});

/** A code of this directory. */
export type DoctorErrorCode = keyof typeof doctorErrors;

/** Facts could not be read, or do not contain the node that was named. */
export class DoctorError extends errorClass(doctorErrors) {}
