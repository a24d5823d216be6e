"""Print the SHA-256 of the inputs and outputs of every test shape of the built-in operators; machines are compared."""

import hashlib

from opforge.codegen.printing import say
from opforge.codegen.project import BUILTIN_ROOT, Project
from opforge.codegen.spec.loader import load_specs
from opforge.twin import run
from opforge.twin.samples import calls_of

project = Project(BUILTIN_ROOT)
for spec in load_specs(project.spec_paths()):
    for call in calls_of(spec):
        total = hashlib.sha256()
        inputs = call.inputs()
        result = run(call.op_type, inputs, call.attrs, seed=1, project=project)
        for array in (*inputs.values(), *result.values()):
            total.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
        say(f"{call} {total.hexdigest()}")
