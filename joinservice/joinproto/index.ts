/** The contract of joining (protobuf), with the names in its messages. */

/** The fact in which a machine reports the checks that it makes before it joins: "fail" names the check that failed. */
export const MACHINE_CHECKS = 'machine checks';
