// decide, observe and push in a hundred nanoseconds. `direct` marks such a method of Python's: a
// call with plain arguments (vectors of doubles, a number), in turn, of a learner whose `_direct`
// says so, goes straight to its engine. Every other call goes to the method as it is written: what
// is refused, converted or of another kind is Python's. So both do the same, and only the time
// differs.
#include "dpoco/bandits/bandit_learner.hpp"
#include "dpoco/experts/expert_learner.hpp"
#include "dpoco/mechanisms/continual_sum.hpp"
#include "dpoco/oco/record_learner.hpp"
#include "registrars.hpp"

#include <structmember.h>  // after Python.h, which it needs

#include <cstddef>
#include <cstdint>

namespace dpoco::bindings {
namespace {

using bandits::BanditLearner;
using experts::ExpertLearner;
using mechanisms::ContinualSum;
using oco::RecordLearner;

// The fields of a learner that such a call needs, in a base of its Python class.
struct Live {
  PyObject base;
  PyObject* engine;
  RecordLearner* records;  // the engine, if it is of this kind
  ExpertLearner* experts;
  BanditLearner* bandit;
  ContinualSum* sum;
  PyObject* decision;  // that was asked for in round `asked`; null: none was
  std::uint64_t asked;
  PyObject* sole;  // the lock that a long run holds
  int direct;      // arguments of `observe` that the engine takes as they come; 0: none
  char suspended;
};

struct Direct {
  PyObject base;
  vectorcallfunc call;
  PyObject* function;
  bool (*attempt)(Live&, PyObject* const* arguments, std::size_t count, py::object& result);
};

struct Known {
  PyTypeObject* live;
  PyTypeObject* array;
  PyTypeObject* number;  // numpy.float64, laid out as a float is
  PyObject* dtype;
  PyObject* locked;  // the name
};
Known known;

Live& live(PyObject* object) { return *reinterpret_cast<Live*>(object); }

// Without the interpreter lock every object has one of its own.
struct Critical {
#ifdef Py_GIL_DISABLED
  explicit Critical(PyObject* object) { PyCriticalSection_Begin(&section, object); }
  ~Critical() { PyCriticalSection_End(&section); }
  PyCriticalSection section;
#else
  explicit Critical(PyObject*) {}
#endif
  Critical(const Critical&) = delete;
  Critical& operator=(const Critical&) = delete;
};

// The entries of a vector of doubles as the engine reads them; null for everything else.
const double* plain_vector(PyObject* value, std::size_t size) {
  using Api = py::detail::npy_api;
  constexpr int kPlain = Api::NPY_ARRAY_C_CONTIGUOUS_ | Api::NPY_ARRAY_ALIGNED_;
  if (Py_TYPE(value) != known.array) return nullptr;
  const auto* array = py::detail::array_proxy(value);
  const auto* dtype = py::detail::array_descriptor_proxy(array->descr);
  const bool plain = dtype->type_num == Api::NPY_DOUBLE_ && dtype->byteorder == '=' &&
                     array->nd == 1 && static_cast<std::size_t>(array->dimensions[0]) == size &&
                     (array->flags & kPlain) == kPlain;
  return plain ? reinterpret_cast<const double*>(array->data) : nullptr;
}

bool plain_number(PyObject* value, double& out) {
  if (PyFloat_CheckExact(value) || Py_TYPE(value) == known.number) {
    out = PyFloat_AS_DOUBLE(value);
    return true;
  }
  if (!PyLong_CheckExact(value) && !PyBool_Check(value)) return false;
  out = PyLong_AsDouble(value);
  if (out != -1.0 || PyErr_Occurred() == nullptr) return true;
  PyErr_Clear();  // too long for a double
  return false;
}

py::object new_vector(std::size_t size, double*& data) {
  const auto& api = py::detail::npy_api::get();
  const auto length = static_cast<Py_intptr_t>(size);
  PyObject* made = api.PyArray_NewFromDescr_(known.array, Py_NewRef(known.dtype), 1, &length,
                                             nullptr, nullptr, 0, nullptr);
  if (made == nullptr) throw py::error_already_set();
  data = reinterpret_cast<double*>(py::detail::array_proxy(made)->data);
  return py::reinterpret_steal<py::object>(made);
}

bool is_asked(const Live& self, std::uint64_t turn) {
  return self.decision != nullptr && self.asked == turn;
}

void ask(Live& self, std::uint64_t turn, py::object decision) {
  PyObject* old = self.decision;
  self.asked = turn;
  self.decision = decision.release().ptr();
  Py_XDECREF(old);
}

// Asked before the engine is looked at: it calls Python, where anything may happen.
bool is_alone(const Live& self) {
  if (self.sole == nullptr) return false;
  const auto locked =
      py::reinterpret_steal<py::object>(PyObject_CallMethodNoArgs(self.sole, known.locked));
  if (!locked) throw py::error_already_set();
  return locked.ptr() == Py_False;
}

// The three methods: whether the call was theirs; the conditions are those of the method, which is
// asked again where one does not hold.

bool decide(Live& self, PyObject* const* arguments, std::size_t count, py::object& result) {
  if (self.records != nullptr && count == 0) {
    const std::uint64_t turn = self.records->round();
    if (!is_asked(self, turn)) {
      if (self.suspended != 0 || turn >= self.records->horizon()) return false;
      double* data = nullptr;
      const auto size = static_cast<std::size_t>(self.records->dimension());
      py::object made = new_vector(size, data);
      self.records->decision({data, size});
      py::detail::array_proxy(made.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
      ask(self, turn, std::move(made));
    }
    result = py::reinterpret_borrow<py::object>(self.decision);
    return true;
  }
  if (self.experts != nullptr && count == 0) {
    const std::uint64_t turn = self.experts->round();
    if (!is_asked(self, turn)) {
      if (self.suspended != 0 || turn >= self.experts->horizon()) return false;
      ask(self, turn, py::int_(self.experts->decision()));
    }
    result = py::reinterpret_borrow<py::object>(self.decision);
    return true;
  }
  if (count != 1 || !is_alone(self) || self.bandit == nullptr) return false;
  const std::uint64_t turn = self.bandit->round();
  if (!is_asked(self, turn) && (self.suspended != 0 || turn >= self.bandit->horizon())) {
    return false;
  }
  const double* context = plain_vector(arguments[0], self.bandit->dimension());
  if (context == nullptr) return false;
  result = py::int_(self.bandit->decide(turn, {context, self.bandit->dimension()}));
  ask(self, turn, result);
  return true;
}

bool observe(Live& self, PyObject* const* arguments, std::size_t count, py::object& result) {
  if (count != static_cast<std::size_t>(self.direct) || !is_alone(self)) return false;
  double number = 0.0;
  if (self.records != nullptr) {
    const std::uint64_t turn = self.records->round();
    const auto size = static_cast<std::size_t>(self.records->dimension());
    if (!is_asked(self, turn)) return false;
    const double* record = plain_vector(arguments[0], size);
    if (record == nullptr || (count == 2 && !plain_number(arguments[1], number))) return false;
    if (count == 2) {
      self.records->observe(turn, {record, size}, number);
    } else {
      self.records->observe_gradient(turn, {record, size});
    }
  } else if (self.experts != nullptr) {
    const std::uint64_t turn = self.experts->round();
    const double* losses = plain_vector(arguments[0], self.experts->experts());
    if (losses == nullptr || !is_asked(self, turn)) return false;
    self.experts->observe(turn, {losses, self.experts->experts()});
  } else {
    if (self.bandit == nullptr || !plain_number(arguments[0], number)) return false;
    const std::uint64_t turn = self.bandit->round();
    if (!is_asked(self, turn)) return false;
    self.bandit->observe(turn, number);
  }
  result = py::none();
  return true;
}

bool push(Live& self, PyObject* const* arguments, std::size_t count, py::object& result) {
  if (count != 1 || !is_alone(self) || self.suspended != 0 || self.sum == nullptr) return false;
  const auto size = static_cast<std::size_t>(self.sum->dimension());
  const double* value = plain_vector(arguments[0], size);
  if (value == nullptr) return false;
  double* out = nullptr;
  result = new_vector(size, out);
  self.sum->push({value, size}, {out, size});
  return true;
}

PyObject* call(PyObject* callable, PyObject* const* arguments, std::size_t flagged,
               PyObject* names) {
  const auto& self = *reinterpret_cast<Direct*>(callable);
  const auto count = static_cast<std::size_t>(PyVectorcall_NARGS(flagged));
  if (count > 0 && names == nullptr && PyObject_TypeCheck(arguments[0], known.live)) {
    try {
      const Critical alone(arguments[0]);
      py::object result;
      Live& learner = live(arguments[0]);
      if (learner.direct > 0 && self.attempt(learner, arguments + 1, count - 1, result)) {
        return result.release().ptr();
      }
    } catch (py::error_already_set& error) {
      error.restore();
      return nullptr;
    } catch (...) {
      py::detail::try_translate_exceptions();
      return nullptr;
    }
  }
  return PyObject_Vectorcall(self.function, arguments, flagged, names);
}

// -- the marked method: of a class the function itself, of an object a method that calls this -----

PyObject* make_direct(PyTypeObject* type, PyObject* arguments, PyObject*) {
  PyObject* function = nullptr;
  if (PyArg_ParseTuple(arguments, "O", &function) == 0) return nullptr;
  const auto name = py::reinterpret_steal<py::object>(PyObject_GetAttrString(function, "__name__"));
  if (!name) return nullptr;
  if (!PyUnicode_Check(name.ptr())) {
    PyErr_SetString(PyExc_TypeError, "__name__ must be a str");
    return nullptr;
  }
  const auto named = [&name](const char* text) {
    return PyUnicode_CompareWithASCIIString(name.ptr(), text) == 0;
  };
  PyObject* made = type->tp_alloc(type, 0);
  if (made == nullptr) return nullptr;
  auto& self = *reinterpret_cast<Direct*>(made);
  self.attempt = named("push") ? push : named("observe") ? observe : decide;
  self.call = call;
  self.function = Py_NewRef(function);
  return made;
}

PyObject* bind(PyObject* self, PyObject* object, PyObject*) {
  if (object == nullptr || object == Py_None) {
    return Py_NewRef(reinterpret_cast<Direct*>(self)->function);
  }
  return PyMethod_New(self, object);
}

PyObject* attribute(PyObject* self, PyObject* name) {
  return PyObject_GetAttr(reinterpret_cast<Direct*>(self)->function, name);
}

int visit_direct(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<Direct*>(self)->function);
  return 0;
}

int clear_direct(PyObject* self) {
  Py_CLEAR(reinterpret_cast<Direct*>(self)->function);
  return 0;
}

// -- the base ---------------------------------------------------------------------------------

PyObject* get_engine(PyObject* self, void*) {
  const Critical alone(self);
  if (live(self).engine != nullptr) return Py_NewRef(live(self).engine);
  PyErr_SetString(PyExc_AttributeError, "_engine");
  return nullptr;
}

template <class Engine>
Engine* engine_in(PyObject* object) {
  py::detail::make_caster<Engine> caster;
  return object != nullptr && caster.load(object, false) ? static_cast<Engine*>(caster) : nullptr;
}

// Whatever stands in for an engine, as tests may let it, is called as Python does.
int set_engine(PyObject* self, PyObject* engine, void*) {
  const Critical alone(self);
  Live& own = live(self);
  own.records = engine_in<RecordLearner>(engine);
  own.experts = engine_in<ExpertLearner>(engine);
  own.bandit = engine_in<BanditLearner>(engine);
  own.sum = engine_in<ContinualSum>(engine);
  PyObject* old = own.engine;
  own.engine = Py_XNewRef(engine);
  Py_XDECREF(old);
  return 0;
}

PyObject* get_asked(PyObject* self, void*) {
  const Critical alone(self);
  const Live& own = live(self);
  if (own.decision == nullptr) return Py_BuildValue("(iO)", -1, Py_None);
  return Py_BuildValue("(KO)", static_cast<unsigned long long>(own.asked), own.decision);
}

int set_asked(PyObject* self, PyObject* pair, void*) {
  long long turn = -1;
  PyObject* decision = nullptr;
  if (pair == nullptr || !PyTuple_Check(pair)) {
    PyErr_SetString(PyExc_TypeError, "_asked must be a tuple");
    return -1;
  }
  if (PyArg_ParseTuple(pair, "LO", &turn, &decision) == 0) return -1;
  const Critical alone(self);
  ask(live(self), static_cast<std::uint64_t>(turn),
      turn < 0 ? py::object() : py::reinterpret_borrow<py::object>(decision));
  return 0;
}

int visit_live(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(live(self).engine);
  Py_VISIT(live(self).decision);
  Py_VISIT(live(self).sole);
  return 0;
}

int clear_live(PyObject* self) {
  live(self).records = nullptr;
  live(self).experts = nullptr;
  live(self).bandit = nullptr;
  live(self).sum = nullptr;
  Py_CLEAR(live(self).engine);
  Py_CLEAR(live(self).decision);
  Py_CLEAR(live(self).sole);
  return 0;
}

template <int (*clear)(PyObject*)>
void drop(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  clear(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMemberDef live_members[] = {
    {"_sole", T_OBJECT_EX, offsetof(Live, sole), 0, nullptr},
    {"_suspended", T_BOOL, offsetof(Live, suspended), 0, nullptr},
    {"_direct", T_INT, offsetof(Live, direct), 0, nullptr},
    {},
};
PyGetSetDef live_properties[] = {
    {"_engine", get_engine, set_engine, nullptr, nullptr},
    {"_asked", get_asked, set_asked, nullptr, nullptr},
    {},
};
PyType_Slot live_slots[] = {
    {Py_tp_members, live_members},
    {Py_tp_getset, live_properties},
    {Py_tp_traverse, reinterpret_cast<void*>(visit_live)},
    {Py_tp_clear, reinterpret_cast<void*>(clear_live)},
    {Py_tp_dealloc, reinterpret_cast<void*>(drop<clear_live>)},
    {},
};
PyType_Spec live_spec{"dpoco._core.Live", sizeof(Live), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, live_slots};

PyMemberDef direct_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Direct, call), READONLY, nullptr},
    {},
};
PyType_Slot direct_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(make_direct)},
    {Py_tp_members, direct_members},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_descr_get, reinterpret_cast<void*>(bind)},
    {Py_tp_getattro, reinterpret_cast<void*>(attribute)},
    {Py_tp_traverse, reinterpret_cast<void*>(visit_direct)},
    {Py_tp_clear, reinterpret_cast<void*>(clear_direct)},
    {Py_tp_dealloc, reinterpret_cast<void*>(drop<clear_direct>)},
    {},
};
PyType_Spec direct_spec{"dpoco._core.direct", sizeof(Direct), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                            Py_TPFLAGS_METHOD_DESCRIPTOR,
                        direct_slots};

py::object type_of(PyType_Spec& spec) {
  PyObject* made = PyType_FromSpec(&spec);
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(made);
}

}  // namespace

void register_live(py::module_& m) {
  const auto& api = py::detail::npy_api::get();
  const py::object numpy = py::module_::import("numpy"), live_type = type_of(live_spec);
  // Kept for as long as the process lives, as the module is.
  known.live = reinterpret_cast<PyTypeObject*>(Py_NewRef(live_type.ptr()));
  known.array = api.PyArray_Type_;
  known.number = reinterpret_cast<PyTypeObject*>(py::object(numpy.attr("float64")).release().ptr());
  known.dtype = api.PyArray_DescrFromType_(py::detail::npy_api::NPY_DOUBLE_);
  known.locked = PyUnicode_InternFromString("locked");
  m.attr("Live") = live_type;
  m.attr("direct") = type_of(direct_spec);
}

}  // namespace dpoco::bindings
