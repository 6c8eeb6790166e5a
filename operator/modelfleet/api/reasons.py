"""Every reason that a condition can have: what it means, what to do. Those of scaling and events are in told.py. Pure.

docs/conditions.md is generated from here. A reason is never renamed and never reused. Ready repeats the reason of the
first of Accepted, Planned and Available that is not True, so it is not listed for each; only Announced is its own.
"""

from modelfleet.api import promise_reasons as promise
from modelfleet.api import rollout_reasons as rollouts
from modelfleet.api import standings as at
from modelfleet.api import zero_reasons as zero
from modelfleet.api.told import EventReason as EventReason
from modelfleet.api.told import ScalingReason as ScalingReason

_NOTHING = "Nothing to do."
_LOG = "kubectl logs POD -c worker (add --previous after a restart)"


class Reason(at.Documented):
    """Every reason of a condition."""

    # The object and what it refers to
    VALID = "Valid", (at.ACCEPTED,), "The spec is valid and what it refers to exists.", _NOTHING
    SPEC_INVALID = (
        "SpecInvalid",
        (at.NOT_ACCEPTED,),
        "The stored spec breaks a rule of this operator's version. What already runs goes on running.",
        "Change the field that the message names. `modelfleet lint FILE` checks before applying; if the API server let"
        " it pass, its CRDs are older than the operator: `modelfleet crds` prints the current ones.",
    )
    CLASS_NOT_FOUND = (
        "ClassNotFound",
        (at.NOT_ACCEPTED,),
        "No AcceleratorClass has the name in spec.accelerators.classes.",
        "Choose a name from `kubectl get accel`, or create the class. It is picked up by itself.",
    )
    CLASS_INVALID = (
        "ClassInvalid",
        (at.NOT_ACCEPTED,),
        "The AcceleratorClass in spec.accelerators.classes breaks a rule of this operator's version.",
        "Change the field of the class that the message names.",
    )
    NAME_TAKEN = (
        "NameTaken",
        (at.NOT_ACCEPTED, at.NOT_PLANNED, at.NOT_PROGRESSING),
        "An object that belongs to someone else has a name that the operator needs. It is not touched.",
        "Delete or rename the object that the message names, or give the ModelDeployment another name.",
    )
    NOT_EVALUATED = (
        "NotEvaluated",
        at.DEPENDENT_UNKNOWN,
        "An earlier condition does not hold, so this one was not looked at.",
        "Look at the first condition that is not True.",
    )

    # The layout
    PLAN_PINNED = (
        "PlanPinned",
        (at.PLANNED,),
        "A layout was chosen and is kept until the spec or a class changes; the message says which and why.",
        _NOTHING,
    )
    INSPECTING = (
        "Inspecting",
        (at.PLAN_UNKNOWN,),
        "A Job reads the model's config.json where the weights are, because a layout is chosen from it.",
        "Wait a moment. To do without it write spec.model.facts, or pin spec.parallelism on a class without performance"
        " facts.",
    )
    INSPECT_FAILED = (
        "InspectFailed",
        (at.NOT_PLANNED,),
        "What the model is made of could not be read, so no layout can be chosen. It is tried again by itself.",
        "Mend what the message names, or write spec.model.facts.",
    )
    UNKNOWN_ARCHITECTURE = (
        "UnknownArchitecture",
        (at.NOT_PLANNED,),
        "The planner does not know the model's architecture, and does not guess.",
        "Write what the model is made of in spec.model.facts, or name only classes without performance facts and pin"
        " spec.parallelism.",
    )
    NOTHING_PREDICTED = (
        "NothingPredicted",
        (at.NOT_PLANNED,),
        "The spec asks for a choice that needs predictions, and no class in spec.accelerators.classes has performance"
        " facts.",
        "Write memory, memoryBandwidth and compute in the class, or pin spec.parallelism.",
    )
    INFEASIBLE = (
        "Infeasible",
        (at.NOT_PLANNED,),
        "No layout on the listed classes keeps the promise. Nothing is started for it; what already runs goes on.",
        "Take one of the offers in the message, or change the bound that it names.",
    )
    CONTRADICTION = (
        "Contradiction",
        (at.NOT_PLANNED,),
        "The spec contradicts the model, the class or itself; the message names the field and what would work.",
        "Change the field that the message names.",
    )
    NOT_ROLLED_OUT = (
        "NotRolledOut",
        (at.NOT_PLANNED,),
        "A layout exists that this version can plan and cannot run: prefill and decode apart, or a replica over more"
        " nodes than are rolled out. status.plan shows the plan.",
        "Choose a faster class, or another spec.parallelism; the message has what is known.",
    )
    ENGINE_VERSION_NOT_ALLOWED = (
        "EngineVersionNotAllowed",
        (at.NOT_PLANNED,),
        "spec.engine.version is not one that the class allows in engineVersions.",
        "Use an image with an allowed version, or have the class's engineVersions changed.",
    )
    TENSOR_EXCEEDS_NODE = (
        "TensorExceedsNode",
        (at.NOT_PLANNED,),
        "spec.parallelism.tensor is above the class's acceleratorsPerNode; tensor parallelism stays inside a node.",
        "Lower spec.parallelism.tensor, or choose a class whose nodes have more accelerators.",
    )

    # The nodes
    ALL_PLACED = "AllPlaced", (at.PLACED,), "Every wanted replica has a node.", _NOTHING
    PLACING = "Placing", (at.NOT_PLACED, at.PROGRESSING), "Pods are created and wait for their nodes.", "Wait a moment."
    UNSCHEDULABLE = (
        "Unschedulable",
        (at.NOT_PLANNED, at.NOT_PLACED, *at.STUCK),
        "The scheduler finds no node for a pod; the message has its words.",
        "Free or add nodes that carry the class's labels and have accelerators, CPU and memory to spare; check taints,"
        " spec.placement, and that the claims of the message exist and are bound. It is tried again by itself.",
    )
    NO_ROOM = (
        "NoRoom",
        (at.NOT_PLACED, *at.STUCK),
        "No set of nodes has room for a whole replica; the message says what is needed and what there is. Nothing is"
        " created for it meanwhile.",
        "Free or add what the message names; it is placed by itself then. See docs/placement.md.",
    )
    NODES_NOT_READ = (
        "NodesNotRead",
        (at.PLAN_UNKNOWN, at.NOT_PLACED, at.NOT_AVAILABLE, at.PROGRESSING),
        "The operator has not read all nodes, pods and devices of the cluster yet, so it places nothing and chooses no"
        " layout.",
        "Wait a moment. If it lasts, see the log: its ClusterRole must let it list and watch nodes and pods.",
    )
    WAITS_FOR_GATE = (
        "WaitsForGate",
        (at.NOT_PLACED, at.NOT_AVAILABLE, at.PROGRESSING),
        "Pods wait behind a scheduling gate of somebody else, such as Kueue's; they are placed once it is gone.",
        "Look at what set the gate that the message names, such as the Kueue Workload of the pods.",
    )
    BACKING_OFF = (
        "BackingOff",
        (at.NOT_PLACED, at.NOT_AVAILABLE, at.PROGRESSING),
        "A replica ended as a whole and is made anew after a back-off; the message has the reason and how often.",
        "See what the message names. After three ends the replica moves to other nodes if there are any.",
    )
    PODS_REFUSED = (
        "PodsRefused",
        (at.NOT_PLANNED, at.NOT_PLACED, *at.STUCK),
        "The API server refuses a pod: a quota, a policy or a missing PriorityClass; the message has its words.",
        "Raise the quota, or change the policy or the field that the message names. It is tried again by itself.",
    )

    # The workers
    MINIMUM_AVAILABLE = "MinimumAvailable", (at.AVAILABLE,), "At least minReplicas replicas serve.", _NOTHING
    STARTING = (
        "Starting",
        (at.NOT_AVAILABLE, at.PROGRESSING),
        "Workers are pulling their image, loading the model or warming up, and nothing has gone wrong.",
        "Wait. Minutes are normal for large models.",
    )
    IMAGE_NOT_PULLABLE = (
        "ImageNotPullable",
        (at.NOT_PLANNED, *at.STUCK),
        "The worker's image cannot be pulled.",
        "Correct spec.engine.image (or the operator's worker image), or name a working secret in"
        " spec.imagePullSecrets.",
    )
    CONTAINER_CONFIG_ERROR = (
        "ContainerConfigError",
        (at.NOT_PLANNED, *at.STUCK),
        "The kubelet cannot make the container or its volumes: something it refers to is missing or refused.",
        "Create or correct what the message names (a claim, a secret, a config map).",
    )
    MODEL_NOT_FOUND = (
        "ModelNotFound",
        (at.NOT_PLANNED, *at.STUCK),
        "There is no model at the path in spec.model.source.",
        "Correct the path, or put the model's folder (with config.json) on the claim. It is tried again by itself.",
    )
    MODEL_REFUSED = (
        "ModelRefused",
        (at.NOT_PLANNED, *at.STUCK),
        "The model was found and cannot be served: an unknown architecture, a broken file, or a setting that does"
        " not fit it, such as maxContextTokens above what it was trained for, or a tensor that does not divide its"
        " heads.",
        "Follow the engine's words in the message: change the setting, or use another model or engine version.",
    )
    CREDENTIALS_REFUSED = (
        "CredentialsRefused",
        (at.NOT_PLANNED, *at.STUCK),
        "The server of the weights refuses the credentials, or asks for some.",
        "Name a Secret with credentials that may read the source in spec.model.credentialsSecretRef.",
    )
    FETCH_FAILED = (
        "FetchFailed",
        (at.NOT_PLANNED, *at.STUCK),
        "The weights did not come: their server stalls, resets connections or answers errors. It is tried again by"
        " itself, and goes on where it was.",
        "Look at the server and at the way to it; see kubectl logs POD -c fetch.",
    )
    WEIGHTS_CHANGED = (
        "WeightsChanged",
        (at.NOT_PLANNED, *at.STUCK),
        "The source no longer has the files that the plan was made with.",
        "Write a new model to a new prefix or revision, and name that in spec.model.source.",
    )
    ENGINE_ARGUMENTS_REFUSED = (
        "EngineArgumentsRefused",
        at.STUCK,
        "The engine does not know an argument, or not with this value.",
        "Correct spec.engine.args; the message has the engine's words.",
    )
    ENGINE_OUT_OF_MEMORY = (
        "EngineOutOfMemory",
        at.STUCK,
        "The accelerator's or the host's memory does not suffice for weights and working memory.",
        "Raise spec.parallelism.tensor, lower maxContextTokens or engine.args max-num-seqs, choose a class with more"
        " memory, or raise hostPerAccelerator.memory; see that nothing else uses the accelerator.",
    )
    FOREIGN_MEMORY = (
        "ForeignMemory",
        at.STUCK,
        "Another process holds memory of the accelerator, or of the node where the engine runs on CPU.",
        "End that process or move it; the message says what it holds, and its name where that can be seen. Nothing of"
        " the plan is changed for it.",
    )
    MEMORY_FRACTION_TOO_HIGH = (
        "MemoryFractionTooHigh",
        at.STUCK,
        "The share of memory that the engine was to take is more than is free.",
        "Nothing if the operator lowers it (docs/memory.md). Your own engine.args gpu-memory-utilization or"
        " kv-cache-memory-bytes is not touched: lower it to what the message says.",
    )
    LONG_PROMPT_SPIKE = (
        "LongPromptSpike",
        (at.NOT_AVAILABLE, at.PROGRESSING),
        "A long prompt needed more working memory than was left; the message names the mechanism.",
        "Nothing if the operator lowers the tokens that a step takes (docs/memory.md). Else lower engine.args"
        " max-num-batched-tokens or set long-prefill-token-threshold.",
    )
    HOST_OUT_OF_MEMORY = (
        "HostOutOfMemory",
        (at.NOT_AVAILABLE, at.PROGRESSING),
        "The kernel killed a process of the engine because the container's or the node's host memory was used up.",
        "Raise the class's hostPerAccelerator.memory, or lower what the message names.",
    )
    ACCELERATOR_FAULTY = (
        "AcceleratorFaulty",
        at.STUCK,
        "The driver reports errors of the accelerator: uncorrectable memory errors, or a critical XID.",
        "Cordon the node and have the accelerator reset or replaced; the message says which one.",
    )
    ACCELERATOR_UNAVAILABLE = (
        "AcceleratorUnavailable",
        at.STUCK,
        "The worker's container sees no usable accelerator: no driver, no device, or no right to use it.",
        "Mend the node's driver or device plugin; the message has the driver's words.",
    )
    WRONG_ACCELERATOR = (
        "WrongAccelerator",
        at.STUCK,
        "The accelerator has less memory than its class states, so the plan does not hold on it.",
        "Correct the class's nodeSelector or memory, or label the node for the right class.",
    )
    DISK_FULL = (
        "DiskFull",
        at.STUCK,
        "A file system that the worker writes to is full.",
        "Free room on the node's disk or raise the limit of the volume that the message names.",
    )
    WEIGHTS_DAMAGED = (
        "WeightsDamaged",
        (at.NOT_PLANNED, *at.STUCK),
        "A file of weights is cut off or is not what its header says.",
        "Copy the file that the message names again.",
    )
    KV_CACHE_TOO_SMALL = (
        "KvCacheTooSmall",
        at.STUCK,
        "Beside the weights there is no room for the KV cache of a single request of maxContextTokens.",
        "Lower spec.model.maxContextTokens to what the message says fits, or raise spec.parallelism.tensor.",
    )
    ENGINE_START_TIMEOUT = (
        "EngineStartTimeout",
        at.STUCK,
        "The engine did not serve a token within the start deadline.",
        f"Look at {_LOG}; speed up the volume, or raise the operator's start deadline.",
    )
    ENGINE_START_FAILED = (
        "EngineStartFailed",
        at.STUCK,
        "The engine ended while it started, for a reason that is not known by its words.",
        f"Read the engine's last lines in the message, and {_LOG}.",
    )
    ENGINE_DIED = (
        "EngineDied",
        (at.NOT_AVAILABLE, at.PROGRESSING),
        "The engine ended while it served. It is started again.",
        f"One time may be chance. If it comes again: {_LOG}.",
    )
    ENGINE_HUNG = (
        "EngineHung",
        (at.NOT_AVAILABLE, at.PROGRESSING),
        "The engine had work and made no progress, so it was ended. It is started again.",
        f"One time may be chance. If it comes again: {_LOG}.",
    )
    GROUP_MEMBER_LOST = (
        "GroupMemberLost",
        (at.NOT_AVAILABLE, at.PROGRESSING),
        "A member of a replica over several nodes went away without a word, so all of its members ended. They start"
        " again together.",
        f"Look at the node and the pod that the message names; {_LOG}.",
    )
    PLAN_UNREADABLE = (
        "PlanUnreadable",
        at.STUCK,
        "The worker cannot read its plan; its image and the operator are of different versions.",
        "Use a worker image of the operator's version.",
    )
    WORKER_FAILED = (
        "WorkerFailed",
        (at.NOT_AVAILABLE, at.PROGRESSING),
        "A worker ended without saying why, such as by an out-of-memory kill of the container. It is started again.",
        f"Look at {_LOG} and at `kubectl describe pod POD`.",
    )
    REPLICA_LOST = (
        "ReplicaLost",
        (at.NOT_AVAILABLE, at.PROGRESSING),
        "A replica's pod was evicted or deleted, or its node is gone. It is replaced.",
        _NOTHING,
    )

    # The movement
    ROLLING_OUT = "RollingOut", (at.PROGRESSING,), "Replicas of a new revision replace those of an older one.", "Wait."
    ROLLOUT_PAUSED = rollouts.ROLLOUT_PAUSED
    PROGRESS_DEADLINE_EXCEEDED = rollouts.PROGRESS_DEADLINE_EXCEEDED
    PROMISE_BROKEN = rollouts.PROMISE_BROKEN
    ROLLED_BACK = rollouts.ROLLED_BACK
    CORDONED_NODE = rollouts.CORDONED_NODE
    SCALING = "Scaling", (at.PROGRESSING,), "The number of replicas is changing.", "Wait."
    DRAINING = "Draining", (at.PROGRESSING,), "Replicas finish their requests before they end.", "Wait."
    SETTLED = (
        "Settled",
        (at.NOT_PROGRESSING,),
        "The cluster is as the spec wants it; there is nothing to move.",
        _NOTHING,
    )

    # To zero and back
    CAPACITY_MAY_NOT_RETURN = zero.CAPACITY_MAY_NOT_RETURN
    AT_ZERO = zero.AT_ZERO
    WAKING = zero.WAKING
    GOING_TO_ZERO = zero.GOING_TO_ZERO
    ACTIVATOR_SILENT = zero.ACTIVATOR_SILENT
    WAKE_FAILED = zero.WAKE_FAILED
    ZERO_BY_HAND = zero.ZERO_BY_HAND

    SLOW_REPLICA = (
        "SlowReplica",
        (at.PROGRESSING,),
        "One replica keeps the promise less often than the others, for certain, so it is replaced, and no more are"
        " bought for it. One at a time, with a growing pause.",
        "Look at the pod and the node that the message names: other processes, a throttled or faulty accelerator.",
    )

    # The whole
    ANNOUNCED = (
        "Announced",
        (at.PROGRESSING, at.NOT_READY),
        "The only replicas that answer began to a moment ago; nodes are told where to send requests meanwhile.",
        "Wait worker.propagationSeconds.",
    )
    SERVING = "Serving", (at.READY,), "A request sent now would be answered.", _NOTHING
    SHARE_KEPT = promise.SHARE_KEPT
    SHARE_MISSED = promise.SHARE_MISSED
    TOO_FEW_REQUESTS = promise.TOO_FEW_REQUESTS
    NO_TRAFFIC = promise.NO_TRAFFIC
    NO_DATA = promise.NO_DATA
    OUTSIDE_REGIME = promise.OUTSIDE_REGIME
    NOT_MEASURED = promise.NOT_MEASURED
    OPERATOR_BUG = (
        "OperatorBug",
        at.UNKNOWN,
        "The operator failed to decide about this object. What runs goes on; it tries again with growing pauses.",
        "Report it with the operator's log lines for this object.",
    )
